/** `sbx images list` and `sbx images build RUNTIME`: the images of the runtimes. */
import { formatDuration, formatSize, type ImageInfo } from "../../index.js";
import { type CommandSpec, command } from "../spec.js";
import { STATUS } from "../statuses.js";
import { toTable } from "../text.js";

const HEADS = ["runtime", "image", "built", "size", "age"];

export const imagesCommands: readonly CommandSpec[] = [
	command({
		name: "images list",
		alias: "ls",
		description: "list the runtimes and whether their images are built",
		options: [],
		handler: async ({ session }) => {
			const infos = await session.sandboxes.images.list({ signal: session.signal });
			const nowMs = Date.now();
			const rows = infos.map((info) => toRow(info, nowMs));
			await session.answer(toTable(HEADS, rows), infos);
			return STATUS.ok;
		},
	}),
	command({
		name: "images build",
		description: "build the image of a runtime, unless it is there",
		arguments: [{ form: "<runtime>", description: "name of a runtime" }],
		options: [],
		handler: async ({ session, names: [runtime = ""] }) => {
			const { signal, onProgress } = session;
			const info = await session.sandboxes.images.build(runtime, { signal, onProgress });
			await session.answer(`${info.runtime}: ${info.reference} ${info.imageId?.slice(0, 19) ?? ""}\n`, info);
			return STATUS.ok;
		},
	}),
];

function toRow(info: ImageInfo, nowMs: number): readonly string[] {
	const { runtime, reference, built, sizeBytes, createdAtMs } = info;
	return [
		runtime,
		reference,
		built ? "yes" : "no",
		sizeBytes === undefined ? "-" : formatSize(sizeBytes),
		createdAtMs === undefined ? "-" : formatDuration(Math.max(1000, nowMs - createdAtMs)),
	];
}
