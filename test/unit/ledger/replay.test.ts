import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { encodeLine, type Line } from "../../../src/ledger/line.js";
import { type Fate, Replay } from "../../../src/ledger/replay.js";
import { thisOwner } from "../../../src/primitives/owner.js";
import { type CountRow, parseCountRow } from "../../support/ledger-rows.js";

const header = { ledger: 1, id: "x", lsn: 1, rows: 0, epoch: 0, owner: thisOwner(), recovered: false };

/** Builds a file line by line, each naming revisions by the lines that won them. */
class File {
	text = encodeLine(header);
	readonly #begin = this.text.length - 1;

	/** Gives the revision that the line has if it wins. */
	add(line: Line): number {
		const revision = this.text.length + 1 - this.#begin;
		this.text += `\n${encodeLine(line)}`;
		return revision;
	}

	change(by: string, key: string, from: number, count?: number): number {
		return this.add({ by, at: 1, key, from, ...(count === undefined ? {} : { row: { count } }) });
	}

	seal(offset = this.text.length): void {
		this.add({ by: "s", offset, next: "ledger.next-1-1-0000000000000000.jsonl" });
	}

	replay(chunkLength = Number.POSITIVE_INFINITY): {
		rows: unknown;
		fates: Record<string, string>;
		state: Replay<CountRow>;
	} {
		const fates: Record<string, string> = {};
		const onFate = (by: string, fate: Fate<CountRow>): void => {
			fates[by] = fate.kind;
		};
		const state = new Replay<CountRow>({ parseRow: parseCountRow, onFate });
		const bytes = Buffer.from(this.text);
		let length = chunkLength;
		while (state.consumed < bytes.length) {
			const from = state.consumed;
			const to = Math.min(bytes.length, from + length);
			state.feed(bytes.subarray(from, to), to === bytes.length);
			if (to === bytes.length) break;
			if (state.consumed === from) length += chunkLength;
		}
		state.endOfFile();
		const rows = [...state.entries].flatMap(([key, { row }]) => (row ? [[key, row.count]] : []));
		return { rows: Object.fromEntries(rows), fates, state };
	}
}

describe("a replay", () => {
	test("lets a line win only where it names the row's revision, and none for a new row", () => {
		const file = new File();
		const first = file.change("first", "a", 0, 1);
		file.change("again", "a", 0, 2);
		const second = file.change("second", "a", first, 3);
		file.change("stale", "a", first, 4);
		file.change("delete", "a", second);
		file.change("after deletion", "a", second, 5);
		file.change("anew", "a", 0, 6);
		file.change("of an earlier life", "a", second, 7);
		const { rows, fates, state } = file.replay();
		expect(rows).toEqual({ a: 6 });
		expect(fates).toEqual({
			first: "won",
			again: "void",
			second: "won",
			stale: "void",
			delete: "won",
			"after deletion": "void",
			anew: "won",
			"of an earlier life": "void",
		});
		expect([state.damage, state.live]).toEqual([undefined, 1]);
	});

	test("ends at the first seal that stands where it says, and at no other", () => {
		const file = new File();
		const first = file.change("first", "a", 0, 1);
		file.seal(file.text.length - 1);
		const second = file.change("second", "a", first, 2);
		expect(file.replay().state.seals).toHaveLength(0);
		file.seal();
		file.change("late", "a", second, 3);
		file.add({ by: "epoch", at: 1, above: 5 });
		const { rows, fates, state } = file.replay();
		expect(rows).toEqual({ a: 2 });
		expect(fates).toEqual({ first: "won", second: "won", late: "sealed", epoch: "sealed" });
		expect([state.seals.length, state.epoch]).toEqual([1, 0]);
	});

	test("believes a line that follows a lost one, and says that one is lost", () => {
		const file = new File();
		file.change("first", "a", 0, 1);
		file.change("later", "a", 5000, 2);
		const { rows, state } = file.replay();
		expect(rows).toEqual({ a: 2 });
		expect(state.damage).toBe("lost_line");
	});

	test("takes the line that follows a changed one for newer than one that follows what stood before", () => {
		const file = new File();
		const first = file.change("first", "a", 0, 1);
		const changed = file.change("changed", "a", first, 2);
		file.text = file.text.replace('"count":2', '"count":7');
		file.change("overtaken", "a", first, 3);
		file.change("newest", "a", changed, 4);
		const { rows, state } = file.replay();
		expect(rows).toEqual({ a: 4 });
		expect(state.damage).toBe("line");
	});

	test("is the same however the bytes arrive", () => {
		const file = new File();
		let revision = 0;
		for (let i = 0; i < 6; i++) revision = file.change(`c${i}`, "ä", i === 4 ? 0 : revision, i) || revision;
		file.text += `\n${encodeLine({ by: "torn", at: 1, key: "b", from: 0, row: { count: 1 } }).slice(0, 40)}`;
		file.seal();
		const whole = file.replay();
		fc.assert(
			fc.property(fc.integer({ min: 1, max: file.text.length }), (chunkLength) => {
				const parts = file.replay(chunkLength);
				expect([parts.rows, parts.fates, parts.state.consumed]).toEqual([
					whole.rows,
					whole.fates,
					whole.state.consumed,
				]);
			}),
		);
	});
});
