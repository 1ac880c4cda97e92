import { appendFileSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { Ledger } from "../../../src/ledger/ledger.js";
import { encodeLine } from "../../../src/ledger/line.js";
import { type CountRow, openCounts } from "../../support/ledger-rows.js";

const HANDLES = 3;
const key = fc.constantFrom("a", "b", "c", "d");
const handle = fc.nat({ max: HANDLES - 1 });
const action = fc.oneof(
	{ weight: 6, arbitrary: fc.record({ kind: fc.constant("set" as const), handle, key, count: fc.nat({ max: 99 }) }) },
	{ weight: 2, arbitrary: fc.record({ kind: fc.constant("delete" as const), handle, key }) },
	{ weight: 3, arbitrary: fc.record({ kind: fc.constant("stale" as const), handle, key, back: fc.nat({ max: 5 }) }) },
	{ weight: 2, arbitrary: fc.record({ kind: fc.constant("race" as const), key }) },
	{ weight: 2, arbitrary: fc.record({ kind: fc.constant("epoch" as const), handle }) },
	{ weight: 2, arbitrary: fc.record({ kind: fc.constant("compact" as const), handle }) },
	{
		weight: 2,
		arbitrary: fc.record({
			kind: fc.constant("die" as const),
			step: fc.constantFrom("successor_written", "sealed", "moved"),
		}),
	},
	{
		weight: 3,
		arbitrary: fc.record({ kind: fc.constant("tear" as const), key, cut: fc.integer({ min: 1, max: 90 }) }),
	},
	{ weight: 1, arbitrary: fc.record({ kind: fc.constant("reopen" as const), handle }) },
);

test("several handles on one file behave as one map, whatever is torn, compacted or left half done", async () => {
	await fc.assert(
		fc.asyncProperty(fc.array(action, { maxLength: 30 }), async (actions) => {
			const directory = mkdtempSync(join(tmpdir(), "sandboxes-model-"));
			const damages: string[] = [];
			const open = (): Ledger<CountRow> => openCounts(directory, { onDamage: ({ reason }) => damages.push(reason) });
			const handles = Array.from({ length: HANDLES }, open);
			const at = (index: number): Ledger<CountRow> => handles[index] ?? open();
			const model = new Map<string, { revision: number; row: CountRow }>();
			const history: number[] = [0];
			let epoch = 0;
			let torn = 0;
			await at(0).all();
			for (const step of actions) {
				if (step.kind === "set") {
					const row = { count: step.count };
					const revision = (await at(step.handle).commit(step.key, model.get(step.key)?.revision ?? 0, row)) ?? -1;
					expect(history).not.toContain(revision);
					model.set(step.key, { revision, row });
					history.push(revision);
				} else if (step.kind === "delete") {
					expect(await at(step.handle).update(step.key, () => undefined)).toBeUndefined();
					model.delete(step.key);
				} else if (step.kind === "stale") {
					const stale = history.at(-1 - step.back) ?? 0;
					if (stale === (model.get(step.key)?.revision ?? 0)) continue;
					expect(await at(step.handle).commit(step.key, stale, { count: -1 })).toBeUndefined();
				} else if (step.kind === "race") {
					const from = model.get(step.key)?.revision ?? 0;
					const rows = handles.map((_, count) => ({ count: 1000 + count }));
					const revisions = await Promise.all(rows.map((row, n) => at(n).commit(step.key, from, row)));
					const winners = revisions.flatMap((revision, n) =>
						revision === undefined ? [] : [{ revision, row: rows[n] }],
					);
					expect(winners).toHaveLength(1);
					for (const { revision, row } of winners) if (row) model.set(step.key, { revision, row });
				} else if (step.kind === "epoch") {
					epoch += 1;
					expect(await at(step.handle).nextEpoch()).toBe(epoch);
				} else if (step.kind === "compact") {
					await at(step.handle).compact();
				} else if (step.kind === "die") {
					const dying = openCounts(directory, {
						onStep: (reached) => {
							if (reached === step.step) throw new Error("died");
						},
					});
					await expect(dying.compact()).rejects.toThrow("died");
					await dying.close();
				} else if (step.kind === "tear") {
					torn += 1;
					const line = encodeLine({ by: `gone-${torn}`, at: 1, key: step.key, from: 0, row: { count: -2 } });
					appendFileSync(at(0).path, `\n${line.slice(0, Math.min(step.cut, line.length - 1))}`);
				} else {
					await at(step.handle).close();
					handles[step.handle] = open();
				}
				for (const ledger of handles) expect(await ledger.all()).toEqual(model);
			}
			expect(await open().all()).toEqual(model);
			expect(damages).toEqual([]);
			expect(readdirSync(directory)).toEqual(["ledger.jsonl"]);
			rmSync(directory, { recursive: true });
		}),
		{ numRuns: 60 },
	);
});
