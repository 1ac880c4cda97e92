/** Account files for a container whose user the image does not know: texts in, texts out. */
import { invalid } from "../primitives/checks.js";

/** The texts of an image's account files. An image without them has empty ones. */
export interface AccountTexts {
	readonly passwd: string;
	readonly group: string;
}

/** The user a container runs as. */
export interface AccountUser {
	readonly uid: number;
	readonly gid: number;
	/** The user's name where the image has none for this uid. Default `sandbox`. */
	readonly userName?: string;
	/** The home directory, an absolute path inside. */
	readonly home: string;
	/** The login shell, an absolute path inside. Default `/bin/sh`. */
	readonly shell?: string;
}

const DEFAULT_NAME = "sandbox";
const DEFAULT_SHELL = "/bin/sh";
const NAME = /^[a-z_][a-z0-9_-]{0,31}$/;
const ID = /^\d{1,10}$/;
const MAX_ID = 0xffff_fffe;

/**
 * The image's account files with exactly one entry for the user's uid and one for its gid, so that `whoami`, `os.userInfo()`, git and
 * npm find the user and its home.
 *
 * An entry the image has for the uid keeps its name (what the image says of `node` still holds) and gets home and shell.
 * Without one, `userName` is added; another user of that name goes. Root keeps its name, and no other user gets it.
 * The same holds for the group, but a name that is taken stays with its group and ours is called otherwise.
 * Lines that are no entries are left out. Bad ids, names and paths are refused with `invalid_input`.
 */
export function mergeAccounts(image: AccountTexts, user: AccountUser): AccountTexts {
	const { uid, gid } = user;
	const wanted = checkName(user.userName ?? DEFAULT_NAME);
	const home = checkPath("home", user.home);
	const shell = checkPath("shell", user.shell ?? DEFAULT_SHELL);
	checkId("uid", uid);
	checkId("gid", gid);

	const users = entries(image.passwd, 7, [2, 3]);
	const known = users.find((entry) => Number(entry[2]) === uid && (uid === 0 || entry[0] !== "root"));
	const name = uid === 0 ? "root" : (known?.[0] ?? (wanted === "root" ? DEFAULT_NAME : wanted));
	const entry = [name, "x", String(uid), String(gid), known?.[4] ?? "", home, shell];
	const passwd = replaced(users, known, entry, (other) => Number(other[2]) === uid || other[0] === name);

	const groups = entries(image.group, 4, [2]);
	const knownGroup = groups.find((group) => Number(group[2]) === gid && (gid === 0 || group[0] !== "root"));
	const taken = new Set(groups.map((group) => group[0]));
	const free = [name, DEFAULT_NAME, `g${gid}`].find((candidate) => candidate !== "root" && !taken.has(candidate));
	const groupName = gid === 0 ? "root" : (knownGroup?.[0] ?? free ?? `g${gid}`);
	const groupEntry = [groupName, "x", String(gid), knownGroup?.[3] ?? ""];
	const group = replaced(groups, knownGroup, groupEntry, (other) => Number(other[2]) === gid || other[0] === groupName);
	return { passwd, group };
}

type Fields = readonly string[];

/** The well-formed entries of an account file: so many fields, a name, decimal ids. */
function entries(text: string, fieldCount: number, idFields: readonly number[]): Fields[] {
	return text
		.split("\n")
		.map((line) => line.replace(/\r$/, "").split(":"))
		.filter((fields) => {
			const name = fields[0] ?? "";
			// A plus or minus begins an entry of NIS, a number sign a comment.
			if (fields.length !== fieldCount || !/^[^\s+#-][^\s]*$/.test(name)) return false;
			return idFields.every((index) => ID.test(fields[index] ?? "") && Number(fields[index]) <= MAX_ID);
		});
}

/** The text in which `entry` stands where `known` stood, or at the end, and no other line is about the same. */
function replaced(
	all: readonly Fields[],
	known: Fields | undefined,
	entry: Fields,
	same: (other: Fields) => boolean,
): string {
	const lines: Fields[] = [];
	for (const other of all) {
		if (other === known) lines.push(entry);
		else if (!same(other)) lines.push(other);
	}
	if (!known) lines.push(entry);
	return lines.map((fields) => `${fields.join(":")}\n`).join("");
}

function checkId(field: string, value: number): void {
	if (!Number.isInteger(value) || value < 0 || value > MAX_ID)
		throw invalid(field, `an integer of 0 to ${MAX_ID}`, value);
}

function checkName(value: string): string {
	if (!NAME.test(value)) throw invalid("userName", "1 to 32 of a-z, 0-9, _ and -, beginning with a letter or _", value);
	return value;
}

function checkPath(field: string, value: string): string {
	if (!/^\/[^:\n\r\0]*$/.test(value)) throw invalid(field, "an absolute path without a colon or line end", value);
	return value;
}
