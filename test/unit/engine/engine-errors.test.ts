import { describe, expect, test } from "vitest";
import { failureOf, refused, type Subject } from "../../../src/engine/engine-errors.js";
import type { EngineFailure } from "../../../src/primitives/errors.js";

const CASES: readonly (readonly [number, string, Subject, EngineFailure])[] = [
	[404, "No such container: web", "container", "no_such_container"],
	[404, "No such image: nosuch:latest", "image", "no_such_image"],
	[404, "No such image: nosuch:latest", "container", "no_such_image"],
	[404, "network fleet not found", "container", "no_such_network"],
	[404, "No such exec instance: abc", "exec", "no_such_exec"],
	[404, "No such container: web", "exec", "no_such_container"],
	[404, "", "network", "no_such_network"],
	[404, "page not found", "engine", "other"],
	[409, 'Conflict. The container name "/web" is already in use by container "ab".', "image", "name_taken"],
	[409, "network with name fleet already exists", "network", "name_taken"],
	[409, "Container ab is not running", "container", "not_running"],
	[409, "Container ab is restarting, wait until the container is running", "container", "not_running"],
	[409, "Container ab is paused, unpause the container before exec", "container", "paused"],
	[409, "cannot start a paused container, try unpause instead", "container", "paused"],
	[409, "removal of container ab is already in progress", "container", "removal_in_progress"],
	[409, "container is marked for removal and cannot be started", "container", "removal_in_progress"],
	[403, "error while removing network: network fleet id ab has active endpoints", "network", "network_in_use"],
	[500, "driver failed: Bind for 127.0.0.1:80 failed: port is already allocated", "container", "port_taken"],
	[500, "listen tcp4 127.0.0.1:80: bind: address already in use", "container", "port_taken"],
	[500, "the disk is full", "container", "server_error"],
	[400, "invalid mount config", "image", "bad_request"],
	[418, "tea", "engine", "other"],
];

describe("why the engine refused", () => {
	test.each(CASES)("%i %j about a %s is %s", (status, sentence, subject, failure) => {
		expect(failureOf(status, sentence, subject)).toBe(failure);
	});

	test("the message keeps what was attempted and the engine's own sentence", () => {
		expect(refused("starting container web", 500, "the disk is full\n", "container")).toMatchObject({
			message: "starting container web: the disk is full",
			details: { status: 500, failure: "server_error", call: "starting container web" },
		});
		expect(refused("starting container web", 500, "", "container").message).toMatch(/no reason \(HTTP 500\)/);
	});
});
