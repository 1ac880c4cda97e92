/** `sbx create NAME`: gives the sandbox of this name and says what that took. */
import { describeReason, type PublishedPort, type Sandbox } from "../../index.js";
import { type CommandSpec, command } from "../spec.js";
import { STATUS } from "../statuses.js";
import { toLine } from "../text.js";
import { type ShapeFlags, shapeOptions, toCreateOptions } from "./shape-options.js";

export function createCommand(env: Readonly<Record<string, string | undefined>>): CommandSpec {
	return command<ShapeFlags>({
		name: "create",
		description: "create the sandbox NAME, or reuse, start or rebuild the one that is there",
		arguments: [{ form: "<name>", description: "name of the sandbox" }],
		get options() {
			return shapeOptions(env);
		},
		handler: async ({ session, names: [name = ""], flags }) => {
			const { signal, onProgress } = session;
			const box = await session.sandboxes.create(name, { ...toCreateOptions(flags), signal, onProgress });
			await session.answer(toText(box, session.sandboxes.prefix), toRecord(box));
			return STATUS.ok;
		},
	});
}

function toText(box: Sandbox, prefix: string): string {
	const facts = [box.image, box.workspaceDir, ...box.ports.map(toPortText)];
	const reasons = box.outcome === "created" ? [] : box.reasons.map((reason) => `  ${toLine(describeReason(reason))}\n`);
	return `${box.name}: ${box.outcome} ${prefix}-${box.name} ${box.id.slice(0, 12)} (${toLine(facts.join(", "))})\n${reasons.join("")}`;
}

/** `127.0.0.1:8080→3000/tcp`. */
export function toPortText({ hostIp, hostPort, port, protocol }: PublishedPort): string {
	const host = hostIp.includes(":") ? `[${hostIp}]` : hostIp;
	return `${host}:${hostPort ?? "?"}→${port}/${protocol}`;
}

function toRecord(box: Sandbox): object {
	return {
		name: box.name,
		id: box.id,
		outcome: box.outcome,
		created: box.created,
		reasons: box.reasons,
		because: box.reasons.map(describeReason),
		image: box.image,
		imageId: box.imageId,
		createdAt: box.createdAt,
		workspaceDir: box.workspaceDir,
		ports: box.ports,
	};
}
