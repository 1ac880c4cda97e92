/** Opens one connection to an engine's address, with an end to the waiting. */
import { readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { systemCode } from "../primitives/errors.js";
import type { EngineAddress } from "./address.js";

/** A socket that is connecting. What `ready` is called on: the moment it may be written to. */
export interface OpeningSocket {
	readonly socket: Socket;
	readonly readyEvent: "connect" | "secureConnect";
}

/** Begins to connect. Errors come as the socket's `error` event, a certificate that cannot be read as a throw. */
export async function openSocket(address: EngineAddress): Promise<OpeningSocket> {
	if (address.kind === "unix") return { socket: connect({ path: address.socketPath }), readyEvent: "connect" };
	const { host, port } = address;
	if (!address.tls) {
		const socket = connect({ host, port });
		socket.setNoDelay(true);
		return { socket, readyEvent: "connect" };
	}
	const tls = await import("node:tls");
	const socket = tls.connect({ host, port, servername: servername(host), ...tlsFiles(address) });
	socket.setNoDelay(true);
	return { socket, readyEvent: "secureConnect" };
}

/** SNI is for names only: Node refuses an address there. */
function servername(host: string): string {
	return /^[\d.]+$|:/.test(host) ? "" : host;
}

/** The certificates of a TLS address, read now; each is left out where its file is absent. */
export function tlsFiles(address: EngineAddress): { ca?: Buffer; cert?: Buffer; key?: Buffer } {
	const certPath = address.kind === "tcp" ? address.tls?.certPath : undefined;
	if (certPath === undefined) return {};
	const files: { ca?: Buffer; cert?: Buffer; key?: Buffer } = {};
	for (const part of ["ca", "cert", "key"] as const) {
		try {
			files[part] = readFileSync(join(certPath, `${part}.pem`));
		} catch (error) {
			if (systemCode(error) !== "ENOENT") throw error;
		}
	}
	return files;
}
