/** Turns what the engine tells about itself into our record. Pure. */
import type { EngineInfo } from "./engine.js";
import { type JsonObject, numberOf, objectOf, textOf, textsOf } from "./json-fields.js";

/** From the answers of `/info` and `/version`: only the second names the processor in the words of image manifests. */
export function toEngineInfo(info: JsonObject, version: JsonObject): EngineInfo {
	const security = textsOf(info["SecurityOptions"]);
	return {
		id: textOf(info["ID"]),
		version: textOf(version["Version"]) || textOf(info["ServerVersion"]),
		apiVersion: textOf(version["ApiVersion"]),
		os: textOf(version["Os"]) || textOf(info["OSType"]),
		architecture: textOf(version["Arch"]) || toManifestArchitecture(textOf(info["Architecture"])),
		cpus: numberOf(info["NCPU"]),
		memoryBytes: numberOf(info["MemTotal"]),
		cgroupVersion: textOf(info["CgroupVersion"]) === "2" ? "2" : "1",
		ociRuntimes: Object.keys(objectOf(info["Runtimes"])).sort(),
		usernsRemap: security.some((option) => option.startsWith("name=userns")),
		rootless: security.some((option) => option.startsWith("name=rootless")),
	};
}

function toManifestArchitecture(machine: string): string {
	if (machine === "x86_64") return "amd64";
	return machine === "aarch64" ? "arm64" : machine;
}
