/** One line of progress of long work: building, pulling, rebuilding. */
export interface Progress {
	/** What kind of work speaks: `build`, `pull`, `create`, `remove` … */
	readonly stage: string;
	/** One line of text for people, without a line end. */
	readonly message: string;
	/** How much is done and of how much, in bytes or steps, where that is known. */
	readonly current?: number;
	readonly total?: number;
}

export type ProgressSink = (progress: Progress) => void;
