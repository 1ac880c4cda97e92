import { EventEmitter } from "node:events";
import { expect, test } from "vitest";
import { listenForSignals } from "../../src/cli/interruption.js";
import type { Signals } from "../../src/cli/io.js";
import { ENDING_SIGNALS } from "../../src/cli/statuses.js";

function listen() {
	const signals = new EventEmitter();
	const heard: string[] = [];
	const clock = { nowMs: 1000 };
	listenForSignals(
		signals as Signals,
		({ signal }) => heard.push(`first ${signal}`),
		(signal) => heard.push(`at once ${signal}`),
		() => clock.nowMs,
	);
	return { signals, heard, clock };
}

test("the listeners stay after a signal, so that nobody else ends the process before it has taken back what it made", () => {
	for (const signal of ENDING_SIGNALS) {
		const { signals, heard } = listen();
		signals.emit(signal);
		expect(heard).toEqual([`first ${signal}`]);
		for (const other of ENDING_SIGNALS) expect(signals.listenerCount(other)).toBe(1);
	}
});

test("a second signal ends the process at once, whichever it is, but not one that is sent twice", () => {
	const { signals, heard, clock } = listen();
	signals.emit("SIGTERM");
	signals.emit("SIGTERM");
	expect(heard).toEqual(["first SIGTERM"]);
	clock.nowMs += 500;
	signals.emit("SIGQUIT");
	expect(heard).toEqual(["first SIGTERM", "at once SIGQUIT"]);
});
