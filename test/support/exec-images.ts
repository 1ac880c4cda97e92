/** Makes a busybox image of the machine's own package, for what must work in its shell too. */
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** Imports the image under `tag`; `undefined` where the package cannot be had. `shell: false` leaves out every name but `busybox`. */
export async function importBusybox(tag: string, options: { shell: boolean }): Promise<string | undefined> {
	const directory = await mkdtemp(join(tmpdir(), "sbx-busybox-"));
	try {
		await run("apt-get", ["download", "busybox-static"], { cwd: directory });
		const archive = (await readdir(directory)).find((name) => name.endsWith(".deb"));
		if (!archive) return undefined;
		const root = join(directory, "root");
		await run("dpkg-deb", ["-x", join(directory, archive), join(directory, "package")]);
		for (const name of ["bin", "tmp", "etc", "proc", "workspace"]) await mkdir(join(root, name), { recursive: true });
		await run("cp", [join(directory, "package/bin/busybox"), join(root, "bin/busybox")]);
		const { stdout } = await run(join(root, "bin/busybox"), ["--list"]);
		const applets = options.shell ? stdout.trim().split("\n") : ["sleep"];
		for (const applet of applets) if (applet !== "busybox") await symlink("busybox", join(root, "bin", applet));
		await writeFile(join(root, "etc/passwd"), "root:x:0:0:root:/:/bin/sh\n");
		await run("sh", [
			"-c",
			`tar -C "$1" -c . | docker import --change 'LABEL sandboxes.test=exec' - "$2"`,
			"sh",
			root,
			tag,
		]);
		return tag;
	} catch {
		return undefined;
	} finally {
		await rm(directory, { recursive: true, force: true });
	}
}
