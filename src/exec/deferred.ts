/** A promise whose end is decided elsewhere. */
export interface Deferred<T> {
	readonly promise: Promise<T>;
	/** The first call counts. */
	resolve(value: T): void;
}

export function deferred<T>(): Deferred<T> {
	let resolve: (value: T) => void = () => {};
	const promise = new Promise<T>((settle) => {
		resolve = settle;
	});
	return { promise, resolve };
}
