/** The caller's terminal while a command inside has it: raw, of the same size, and given back as it was. */
import type { ExecOptions } from "../index.js";
import type { Io } from "./io.js";

/** What a size is where the terminal does not tell. */
const UNKNOWN = { columns: 80, rows: 24 };

export interface HeldTerminal {
	/** For `exec()`: the size now, and word of every change. */
	readonly options: NonNullable<ExecOptions["terminal"]>;
	/** Gives the terminal back as it was. Safe to call again. */
	restore(): void;
}

/** Makes the terminal raw, so that every key, Ctrl-C too, goes to the command. */
export function holdTerminal(io: Io): HeldTerminal {
	const size = (): { columns: number; rows: number } => {
		const { columns, rows } = io.stdout.isTTY ? io.stdout : io.stderr;
		return { columns: columns || UNKNOWN.columns, rows: rows || UNKNOWN.rows };
	};
	io.stdin.setRawMode?.(true);
	io.passOutputUnchanged();
	return {
		options: {
			...size(),
			onResize: (resize) => {
				const changed = (): void => resize(size());
				io.signals.on("SIGWINCH", changed);
				return () => io.signals.off("SIGWINCH", changed);
			},
		},
		restore: () => {
			io.stdin.setRawMode?.(false);
		},
	};
}
