/** One running exec: its output taken apart and handed over at the sink's pace, its input, its end. */
import type { Socket } from "node:net";
import { DemuxError, Demuxer } from "./demux.js";
import type { ExecSink, RunningExec } from "./engine.js";
import { unavailable, unavailableBecause } from "./engine-errors.js";
import type { UpgradedConnection } from "./http-client.js";

export interface ExecStreamOptions {
	readonly id: string;
	readonly address: string;
	readonly connection: UpgradedConnection;
	readonly sink: ExecSink;
	/** A terminal's output is not framed, and all of it is stdout. */
	readonly terminal: boolean;
	readonly stdin: boolean;
	readonly resize: (size: { readonly columns: number; readonly rows: number }) => Promise<void>;
}

export class ExecStream implements RunningExec {
	readonly id: string;
	readonly ended: Promise<void>;
	readonly #options: ExecStreamOptions;
	readonly #socket: Socket;
	readonly #demuxer: Demuxer;
	/** Settles when the sink takes more; undefined while it does. */
	#held: Promise<void> | undefined;
	/** The engine sends no more; what is held back is still on its way to the sink. */
	#ending = false;
	#over = false;
	#resolve: () => void = () => {};
	#reject: (error: unknown) => void = () => {};

	constructor(options: ExecStreamOptions) {
		this.id = options.id;
		this.#options = options;
		this.#socket = options.connection.socket;
		this.#demuxer = new Demuxer(options.sink);
		this.ended = new Promise((resolve, reject) => {
			this.#resolve = resolve;
			this.#reject = reject;
		});
		// Who never asks for the end is not told of a break by a crash.
		this.ended.catch(() => {});
		const socket = this.#socket;
		socket.on("error", (error) => this.#broke(error));
		socket.on("close", () => {
			if (!this.#ending) this.#finish(closed(options.address));
		});
		socket.on("end", () => this.#streamEnded());
		if (options.connection.first.length > 0) this.#take(options.connection.first);
		socket.on("data", (chunk) => this.#take(chunk));
		if (socket.destroyed) this.#finish(closed(options.address));
		else if (!this.#held) socket.resume();
	}

	write(data: Uint8Array): Promise<void> {
		if (this.#over || !this.#socket.writable) return Promise.resolve();
		// The callback comes too, with an error, when the socket is destroyed: bytes nobody reads are dropped.
		return new Promise((resolve) => {
			this.#socket.write(data, () => resolve());
		});
	}

	endInput(): void {
		if (!this.#over && this.#socket.writable) this.#socket.end();
	}

	async resize(size: { readonly columns: number; readonly rows: number }): Promise<void> {
		if (this.#over) return;
		try {
			await this.#options.resize(size);
		} catch (error) {
			// It ended meanwhile, and what has ended needs no size.
			if (!this.#over) throw error;
		}
	}

	close(): void {
		this.#finish(unavailable(this.#options.address, "closed", "the exec's connection was given up by its caller"));
	}

	ref(): void {
		this.#socket.ref();
	}

	unref(): void {
		this.#socket.unref();
	}

	#take(chunk: Buffer): void {
		let held: void | Promise<void>;
		try {
			held = this.#options.terminal ? this.#options.sink.onStdout(chunk) : this.#demuxer.push(chunk);
		} catch (error) {
			this.#fail(error);
			return;
		}
		if (!held) return;
		this.#socket.pause();
		const settled = held.then(
			() => {
				if (this.#held === settled) this.#held = undefined;
				if (!this.#over && !this.#ending) this.#socket.resume();
			},
			(error: unknown) => this.#fail(error),
		);
		this.#held = settled;
	}

	/** The engine ends the stream and keeps the connection while input is unread: what counts is the stream's end. */
	#streamEnded(): void {
		this.#ending = true;
		void Promise.resolve(this.#held).then(() => {
			try {
				if (!this.#options.terminal) this.#demuxer.end();
				this.#finish();
			} catch (error) {
				this.#fail(error);
			}
		});
	}

	/**
	 * Input the command did not read can make the engine's closing look like a reset. Where it was met in reading, all
	 * that came before has been read; met in writing or while the sink held back, output may be lost with it.
	 */
	#broke(error: NodeJS.ErrnoException): void {
		const readAll = error.code === "ECONNRESET" && error.syscall === "read" && !this.#held;
		if (this.#options.stdin && readAll) this.#streamEnded();
		else this.#finish(unavailableBecause(this.#options.address, error));
	}

	#fail(error: unknown): void {
		const { address } = this.#options;
		this.#finish(error instanceof DemuxError ? unavailable(address, "closed", error.message, error) : error);
	}

	#finish(error?: unknown): void {
		if (this.#over) return;
		this.#over = true;
		this.#socket.destroy();
		if (error === undefined) this.#resolve();
		else this.#reject(error);
	}
}

function closed(address: string): unknown {
	return unavailable(address, "closed", "the connection was closed while a command ran");
}
