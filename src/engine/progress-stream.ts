/** Follows the JSON lines in which an engine tells how a build or a pull goes. Knows what a failure looks like in them. */
import type { ProgressSink } from "../primitives/progress.js";
import { isJsonObject, type JsonObject, numberOf, objectOf, textOf } from "./json-fields.js";

/** How much of the end of a log an error carries. */
const LOG_TAIL_LINES = 40;
/** The classic builder colours what a step says on stderr. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences begin with one
const COLOURS = /\u001b\[[\d;]*m/g;
const MAX_LINE_BYTES = 1024 * 1024;

/** How the work ended. The engine answers 200 and tells of a failure in the last line. */
export interface ProgressEnd {
	readonly error?: string;
	/** The last `Step N/M : …` of a build. */
	readonly step?: string;
	/** The last lines of the log. */
	readonly log: string;
}

/** Takes the lines one by one. Pure apart from what the sink does. */
export class ProgressFollower {
	readonly #stage: string;
	readonly #onProgress: ProgressSink | undefined;
	#rest = "";
	#log: string[] = [];
	#step: string | undefined;
	#error: string | undefined;

	constructor(stage: string, onProgress: ProgressSink | undefined) {
		this.#stage = stage;
		this.#onProgress = onProgress;
	}

	/** Text as it comes, decoded at whole characters. */
	push(text: string): void {
		const lines = (this.#rest + text).split("\n");
		this.#rest = lines.pop() ?? "";
		if (this.#rest.length > MAX_LINE_BYTES) this.#rest = "";
		for (const line of lines) this.#line(line);
	}

	end(): ProgressEnd {
		this.#line(this.#rest);
		this.#rest = "";
		return {
			log: this.#log.join("\n"),
			...(this.#error === undefined ? {} : { error: this.#error }),
			...(this.#step === undefined ? {} : { step: this.#step }),
		};
	}

	#line(line: string): void {
		if (line.trim() === "") return;
		let entry: unknown;
		try {
			entry = JSON.parse(line);
		} catch {
			return;
		}
		if (!isJsonObject(entry)) return;
		const error = textOf(entry["error"]) || textOf(objectOf(entry["errorDetail"])["message"]);
		if (error !== "") this.#error = error;
		if (typeof entry["stream"] === "string") this.#speak(entry["stream"]);
		else if (typeof entry["status"] === "string") this.#report(entry);
	}

	/** Output of a build. */
	#speak(text: string): void {
		for (const part of text.split(/\r?\n|\r/)) {
			const line = part.replace(COLOURS, "").trimEnd();
			if (line === "") continue;
			if (/^Step \d+\/\d+ : /.test(line)) this.#step = line;
			this.#remember(line);
			const [, current, total] = /^Step (\d+)\/(\d+) : /.exec(line) ?? [];
			this.#onProgress?.({
				stage: this.#stage,
				message: line,
				...(current && total ? { current: Number(current), total: Number(total) } : {}),
			});
		}
	}

	/** A line of a pull, of one layer where it has an id. */
	#report(entry: JsonObject): void {
		const id = textOf(entry["id"]);
		const message = `${id === "" ? "" : `${id}: `}${textOf(entry["status"])}`;
		const detail = objectOf(entry["progressDetail"]);
		const total = numberOf(detail["total"]);
		if (total === 0) this.#remember(message);
		this.#onProgress?.({
			stage: this.#stage,
			message,
			...(total > 0 ? { current: numberOf(detail["current"]), total } : {}),
		});
	}

	#remember(line: string): void {
		this.#log.push(line);
		if (this.#log.length > LOG_TAIL_LINES) this.#log.shift();
	}
}
