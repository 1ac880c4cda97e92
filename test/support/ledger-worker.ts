/**
 * A process that works on a ledger. First argument: the directory; second: what to do; the rest belongs to that.
 * - `count <times> <keys>`: adds one to keys in turn, so many times
 * - `names <worker> <made> <dropped>`: makes rows of its own, and deletes some again
 * - `die <step> <signal> <commit|compact>`: sends itself a signal at a step of a commit or a compaction
 * - `mend`: reads all rows, as the first thing it does
 */
import { once } from "node:events";
import { type CountRow, openCounts } from "./ledger-rows.js";

const [directory = "", task, ...args] = process.argv.slice(2);
let armed = false;
const ledger = openCounts(directory, {
	onStep: (step) => {
		if (!armed || task !== "die" || step !== args[0]) return;
		armed = false;
		process.stdout.write(`at ${step}\n`);
		process.kill(process.pid, args[1]);
	},
	onDamage: ({ reason }) => process.stdout.write(`damage ${reason}\n`),
});
const add = (row: CountRow | undefined): CountRow => ({ count: (row?.count ?? 0) + 1 });

process.stdout.write("up\n");
await once(process.stdin, "data");

if (task === "count") {
	for (let i = 0; i < Number(args[0]); i++) await ledger.update(`k${i % Number(args[1])}`, add);
} else if (task === "names") {
	const [worker, made, dropped] = args.map(Number) as [number, number, number];
	for (let i = 0; i < made; i++) await ledger.commit(`w${worker}-${i}`, 0, { count: i });
	for (let i = 0; i < dropped; i++) await ledger.update(`w${worker}-${i}`, () => undefined);
} else if (task === "mend") {
	process.stdout.write(`rows ${(await ledger.all()).size}\n`);
} else if (args[2] === "compact") {
	await ledger.get("k0");
	armed = true;
	await ledger.compact();
} else {
	const stored = await ledger.get("k0");
	armed = true;
	const revision = await ledger.commit("k0", stored?.revision ?? 0, { count: 1000 });
	process.stdout.write(`commit ${revision === undefined ? "lost" : "won"}\n`);
}
process.stdout.write("done\n");
process.exit(0);
