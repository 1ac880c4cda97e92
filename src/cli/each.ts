/** One call for each of several names: one that fails does not keep the others. */
import { printFailure, toFailure } from "./failure.js";
import type { Session } from "./session.js";
import { STATUS } from "./statuses.js";

/** What became of one name; goes to `--json` as it is. */
export interface Told {
	readonly name: string;
	readonly error?: object;
}

/** Prints what each name's call gave as soon as it is there, failures on stderr; the worst status of all. */
export async function forEach<Answer extends Told>(
	session: Session,
	names: readonly string[],
	call: (name: string) => Promise<{ readonly text: string; readonly answer: Answer; readonly status: number }>,
): Promise<number> {
	const answers: Told[] = [];
	let status: number = STATUS.ok;
	for (const name of new Set(names)) {
		try {
			const told = await call(name);
			status = Math.max(status, told.status);
			answers.push(told.answer);
			if (!session.json) await session.answer(told.text, undefined);
		} catch (error) {
			if (session.signal.aborted) throw session.signal.reason;
			const failure = toFailure(error, false);
			status = Math.max(status, failure.status);
			answers.push({ name, error: failure.record ?? {} });
			session.clearProgress();
			await session.err.write(printFailure(failure, session.json));
		}
	}
	if (session.json) await session.answer("", answers);
	return status;
}
