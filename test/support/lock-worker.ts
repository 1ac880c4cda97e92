/**
 * A process that works with locks. First argument: the directory; second: the name; third: what to do.
 * - `keep`: takes the lock and keeps it until it is killed
 * - `once`: keeps the lock until its own listener, added once, hears SIGTERM
 * - `leave`: takes the lock and lets the event loop run dry while it holds it
 * - `count <times> <file>`: adds one to the number in a file, so many times, each under the lock, carelessly
 * - `break <broken>`: waits for the lock; says how long it took
 */
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { NamedLocks } from "../../src/locks/named-locks.js";
import { sleep } from "../../src/primitives/abort.js";

const [directory = "", name = "", task, times, file = ""] = process.argv.slice(2);
const locks = new NamedLocks(directory);
process.stdout.write("up\n");
if (task === "count") await once(process.stdin, "data");

if (task === "keep") {
	await locks.hold(name, async () => {
		process.stdout.write("held\n");
		await sleep(60_000);
	});
} else if (task === "once") {
	await locks.hold(name, async () => {
		await new Promise<void>((resolve) => {
			process.once("SIGTERM", () => {
				process.stdout.write("told\n");
				resolve();
			});
			setTimeout(resolve, 60_000).unref();
			process.stdin.resume();
			process.stdout.write("held\n");
		});
	});
	process.exit(0);
} else if (task === "leave") {
	process.stdin.destroy();
	void locks.hold(name, () => {
		process.stdout.write("held\n");
		return new Promise<never>(() => {});
	});
} else {
	for (let i = 0; i < Number(times); i++) {
		await locks.hold(name, async () => {
			const count = Number(readFileSync(file, "utf8"));
			await sleep(1);
			writeFileSync(file, String(count + 1));
		});
	}
	process.exit(0);
}
