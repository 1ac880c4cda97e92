/** `sbx images list` and `sbx images build RUNTIME`: the images of the runtimes. */
import type { Command } from "commander";
import { formatDuration, formatSize, type ImageInfo } from "../../index.js";
import type { Define } from "../program.js";
import { STATUS } from "../statuses.js";
import { toTable } from "../text.js";

const HEADS = ["runtime", "image", "built", "size", "age"];

export function addImages(program: Command, define: Define): void {
	const images = program.command("images").description("the images of the runtimes");
	const list = images.command("list").alias("ls").description("list the runtimes and whether their images are built");
	define(list, async ({ session }) => {
		const infos = await session.sandboxes.images.list({ signal: session.signal });
		const nowMs = Date.now();
		await session.answer(
			toTable(
				HEADS,
				infos.map((info) => toRow(info, nowMs)),
			),
			infos,
		);
		return STATUS.ok;
	});
	const build = images
		.command("build")
		.description("build the image of a runtime, unless it is there")
		.argument("<runtime>", "name of a runtime");
	define(build, async ({ session, names: [runtime = ""] }) => {
		const { signal, onProgress } = session;
		const info = await session.sandboxes.images.build(runtime, { signal, onProgress });
		await session.answer(`${info.runtime}: ${info.reference} ${info.imageId?.slice(0, 19) ?? ""}\n`, info);
		return STATUS.ok;
	});
}

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
