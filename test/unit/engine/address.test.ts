import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { resolveEngineAddress } from "../../../src/engine/address.js";

let home = "";
beforeAll(() => {
	home = mkdtempSync(join(tmpdir(), "home-"));
});
afterAll(() => rmSync(home, { recursive: true }));

const resolve = (given?: string, env: NodeJS.ProcessEnv = {}) => resolveEngineAddress(given, { HOME: home, ...env });

function writeContext(config: string, name: string, host: string, tls = false): void {
	const id = createHash("sha256").update(name).digest("hex");
	mkdirSync(join(config, "contexts", "meta", id), { recursive: true });
	writeFileSync(
		join(config, "contexts", "meta", id, "meta.json"),
		JSON.stringify({ Name: name, Endpoints: { docker: { Host: host } } }),
	);
	if (tls) mkdirSync(join(config, "contexts", "tls", id, "docker"), { recursive: true });
	writeFileSync(join(config, "config.json"), JSON.stringify({ currentContext: name }));
}

describe("which engine is asked", () => {
	test("what is given comes before DOCKER_HOST, that before the context, that before the usual socket", () => {
		const config = join(home, "a");
		mkdirSync(config);
		writeContext(config, "mine", "unix:///context.sock");
		const env = { DOCKER_CONFIG: config, DOCKER_HOST: "unix:///variable.sock" };
		expect(resolve("unix:///given.sock", env).address).toBe("unix:///given.sock");
		expect(resolve(undefined, env).address).toBe("unix:///variable.sock");
		expect(resolve(undefined, { DOCKER_CONFIG: config }).address).toBe("unix:///context.sock");
		expect(resolve(undefined, { DOCKER_CONFIG: config, DOCKER_CONTEXT: "default" }).address).toMatch(/docker\.sock$/);
		expect(resolve().address).toMatch(/^unix:\/\/\/.*docker\.sock$/);
	});

	test("a context that is named and not there is refused, unreadable settings count as none", () => {
		expect(() => resolve(undefined, { DOCKER_CONTEXT: "gone" })).toThrow(/gone/);
		const config = join(home, "b");
		mkdirSync(config);
		writeFileSync(join(config, "config.json"), "{ not json");
		expect(resolve(undefined, { DOCKER_CONFIG: config }).kind).toBe("unix");
	});

	test("a context with certificates means TLS", () => {
		const config = join(home, "c");
		mkdirSync(config);
		writeContext(config, "far", "tcp://engine.test:2376", true);
		expect(resolve(undefined, { DOCKER_CONFIG: config })).toMatchObject({
			host: "engine.test",
			port: 2376,
			tls: { certPath: expect.stringContaining(join("contexts", "tls")) },
		});
	});

	test.each([
		["/run/x.sock", { kind: "unix", address: "unix:///run/x.sock", socketPath: "/run/x.sock" }],
		["unix:///with space/x.sock", { kind: "unix", socketPath: "/with space/x.sock" }],
		["tcp://10.0.0.1:2375", { kind: "tcp", address: "tcp://10.0.0.1:2375", host: "10.0.0.1", port: 2375 }],
		["tcp://engine.test", { kind: "tcp", host: "engine.test", port: 2375 }],
		["engine.test:99", { kind: "tcp", host: "engine.test", port: 99 }],
		["tcp://[::1]:2375/", { kind: "tcp", host: "::1", port: 2375, address: "tcp://[::1]:2375" }],
		["http://localhost:80", { kind: "tcp", host: "localhost", port: 80 }],
		["https://engine.test", { kind: "tcp", host: "engine.test", port: 443, tls: {} }],
	])("%s is read", (text, expected) => {
		expect(resolve(text)).toMatchObject(expected);
		if (!text.startsWith("https")) expect(resolve(text)).not.toHaveProperty("tls");
	});

	test("DOCKER_TLS_VERIFY or DOCKER_CERT_PATH make a tcp address TLS", () => {
		expect(resolve("tcp://e.test", { DOCKER_TLS_VERIFY: "1" })).toMatchObject({
			port: 2376,
			address: "https://e.test:2376",
			tls: { certPath: join(home, ".docker") },
		});
		expect(resolve("tcp://e.test:1", { DOCKER_CERT_PATH: "/certs" })).toMatchObject({ tls: { certPath: "/certs" } });
		expect(resolve("unix:///x", { DOCKER_TLS_VERIFY: "1" })).not.toHaveProperty("tls");
	});

	test.each(["ssh://me@host", "npipe:////./pipe/docker_engine", "fd://3"])(
		"%s is refused as unsupported, with a hint",
		(text) => {
			expect(() => resolve(text)).toThrow(
				expect.objectContaining({ code: "unsupported", hint: expect.stringContaining("this machine") }),
			);
			expect(() => resolve(undefined, { DOCKER_HOST: text })).toThrow(expect.objectContaining({ code: "unsupported" }));
		},
	);

	test.each(["", "tcp://", "unix://relative", "tcp://host:port", "tcp://host:1/path", "tcp://me:secret@host:1"])(
		"%j is refused as no address, and shows no password",
		(text) => {
			expect(() => resolve(text)).toThrow(expect.objectContaining({ code: "invalid_input" }));
			expect(() => resolve(text)).not.toThrow(/secret/);
		},
	);

	test("proxy variables change nothing", () => {
		const proxy = {
			HTTP_PROXY: "http://127.0.0.1:9",
			HTTPS_PROXY: "http://127.0.0.1:9",
			ALL_PROXY: "http://127.0.0.1:9",
		};
		expect(resolve("tcp://e.test:1", proxy)).toEqual(resolve("tcp://e.test:1"));
	});
});
