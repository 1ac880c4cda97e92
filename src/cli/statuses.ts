/** The exit statuses of the program, in one table. docs/cli.md prints it. */

export const STATUS = {
	ok: 0,
	/** Something that was asked for was not there, or could not be done. */
	failed: 1,
	/** The words on the command line were refused before anything happened. */
	usage: 2,
	/** No engine answers. */
	engineUnavailable: 3,
	/** The time limit ended the command of `exec`, or the waiting of `wait`. */
	timedOut: 124,
	/** Any failure of our own where 0 to 123 may be the status of what runs inside; bad words and a missing engine included. */
	ownFailure: 125,
	/** Nobody reads the answer any more: what a shell reports for a program ended by SIGPIPE. */
	brokenPipe: 141,
} as const;

/** The commands that end with the status of what runs inside. */
export const PASSING_COMMANDS: ReadonlySet<string> = new Set(["exec", "wait"]);

const SIGNAL_NUMBERS = { SIGHUP: 1, SIGINT: 2, SIGQUIT: 3, SIGTERM: 15 } as const;

/** A signal that ends the program in order. */
export type EndingSignal = keyof typeof SIGNAL_NUMBERS;

export const ENDING_SIGNALS: readonly EndingSignal[] = ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM"];

/** What a shell reports for a program that this signal ended. */
export function signalStatus(signal: EndingSignal): number {
	return 128 + SIGNAL_NUMBERS[signal];
}
