/** Ending a ledger file: what was written meanwhile is carried over to its successor, then a seal is appended that names it. */
import type { Journal } from "./journal.js";
import { encodeLine } from "./line.js";
import type { DamageReason } from "./replay.js";
import { asideName, type Successor } from "./successor.js";

const CATCH_UP_ROUNDS = 50;

/** Copies what was written meanwhile. Gives the offset up to which nothing is missing in the successor, if that was the end. */
export async function catchUp<Row>(
	journal: Journal<Row>,
	successor: Successor,
	from: { readonly consumed: number; readonly examined: number; readonly sealLines: number },
	carry: boolean,
): Promise<number | undefined> {
	const { replay } = journal;
	let { consumed: copied, examined } = from;
	for (let round = 0; round < CATCH_UP_ROUNDS; round++) {
		if (!journal.readOn() || journal.replay !== replay || !journal.isCurrent()) return undefined;
		if (journal.examined === examined) return examined;
		// A seal's place is told by its offset, which is another one in the successor.
		if (!carry || replay.sealLines !== from.sealLines || replay.damage) return undefined;
		const bytes = journal.slice(copied);
		copied += bytes.length;
		examined = copied;
		await successor.append(bytes);
	}
	return undefined;
}

/** Appends the seal. `false` when something was written behind `offset` before it. */
export function seal<Row>(
	journal: Journal<Row>,
	successor: Successor,
	offset: number,
	directory: string,
	reason: DamageReason | undefined,
): boolean {
	if (journal.closed) return false;
	const kept = journal.replay.seals.find((seal) => seal.aside !== undefined)?.aside;
	const line = encodeLine({
		by: "",
		offset,
		next: successor.name,
		...(reason === undefined ? {} : { aside: kept ?? asideName(directory, Date.now()), problem: reason }),
	});
	const failed = journal.append(`\n${line}`);
	journal.readOn();
	if (journal.replay.seals.some((seal) => seal.next === successor.name)) return true;
	if (failed) throw failed;
	return false;
}
