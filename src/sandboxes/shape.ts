/** What a sandbox is made of, and for every field of it when one that exists still serves. */

/** A port of the sandbox that is published on the host. */
export interface PortShape {
	readonly port: number;
	readonly protocol: "tcp" | "udp";
	/** `null`: any free port of the host. */
	readonly hostPort: number | null;
	readonly hostIp: string;
}

/** A directory or file of the host that is mounted beside the workspace. */
export interface MountShape {
	readonly source: string;
	readonly target: string;
	readonly readOnly: boolean;
}

/** Everything that is fixed when a container is made. Recorded on the container, as one label. */
export interface Shape {
	readonly memoryBytes: number;
	readonly cpus: number;
	readonly pids: number;
	readonly shmBytes: number;
	readonly ports: readonly PortShape[];
	/** 0: no limit. */
	readonly maxLifetimeMs: number;
	/** 0: no limit. */
	readonly idleTimeoutMs: number;
	/** Content id of the image, never its tag. */
	readonly imageId: string;
	readonly network: "none" | "bridge";
	readonly mounts: readonly MountShape[];
	readonly readOnlyRoot: boolean;
	/** `null`: the engine's default. */
	readonly ociRuntime: string | null;
	/** `uid:gid`, or `root`. */
	readonly user: string;
}

/** What may change under a container that stays: the newest stated value is recorded and used. */
export interface Adjustable {
	readonly stopGraceMs: number;
	readonly env: Readonly<Record<string, string>>;
	readonly labels: Readonly<Record<string, string>>;
}

export type RuleName = "capacity" | "ceiling" | "identity" | "adjustable";

interface Rule<Value> {
	readonly rule: RuleName;
	serves(have: Value, want: Value): boolean;
}

type RuleTable = { readonly [Field in keyof (Shape & Adjustable)]-?: Rule<(Shape & Adjustable)[Field]> };

const capacity: Rule<number> = { rule: "capacity", serves: (have, want) => have >= want };
/** 0 means no limit, which is the loosest of all. */
const ceiling: Rule<number> = { rule: "ceiling", serves: (have, want) => loosest(have) <= loosest(want) };
const adjustable: Rule<unknown> = { rule: "adjustable", serves: () => true };

function identity<Value extends string | boolean | null>(): Rule<Value> {
	return { rule: "identity", serves: (have, want) => have === want };
}

/** Reuse, as one table. A field without a rule does not compile. */
export const RULES: RuleTable = {
	memoryBytes: capacity,
	cpus: capacity,
	pids: capacity,
	shmBytes: capacity,
	ports: {
		rule: "capacity",
		serves: (have, want) => want.every((wanted) => have.some((port) => portServes(port, wanted))),
	},
	maxLifetimeMs: ceiling,
	idleTimeoutMs: ceiling,
	imageId: identity(),
	network: identity(),
	mounts: {
		rule: "identity",
		serves: (have, want) =>
			have.length === want.length && want.every((mount) => have.some((other) => sameMount(other, mount))),
	},
	readOnlyRoot: identity(),
	ociRuntime: identity(),
	user: identity(),
	stopGraceMs: adjustable,
	env: adjustable,
	labels: adjustable,
};

/** The fields of a shape, in the order of the table. */
export const SHAPE_FIELDS: readonly (keyof Shape)[] = (Object.keys(RULES) as (keyof typeof RULES)[]).filter(
	(field): field is keyof Shape => RULES[field].rule !== "adjustable",
);

/** A field in which what is there does not serve what is asked. */
export interface Mismatch {
	readonly field: keyof Shape;
	readonly rule: RuleName;
	readonly have: Shape[keyof Shape];
	readonly want: Shape[keyof Shape];
}

/** Every field in which `have` does not serve `want`; empty when it serves. */
export function mismatches(have: Shape, want: Shape): Mismatch[] {
	return SHAPE_FIELDS.filter((field) => !fieldServes(field, have, want)).map((field) => ({
		field,
		rule: RULES[field].rule,
		have: have[field],
		want: want[field],
	}));
}

function fieldServes<Field extends keyof Shape>(field: Field, have: Shape, want: Shape): boolean {
	const rule = RULES[field] as Rule<Shape[Field]>;
	return rule.serves(have[field], want[field]);
}

function loosest(limit: number): number {
	return limit === 0 ? Number.POSITIVE_INFINITY : limit;
}

function portServes(have: PortShape, want: PortShape): boolean {
	return (
		have.port === want.port &&
		have.protocol === want.protocol &&
		have.hostIp === want.hostIp &&
		(want.hostPort === null || have.hostPort === want.hostPort)
	);
}

function sameMount(a: MountShape, b: MountShape): boolean {
	return a.source === b.source && a.target === b.target && a.readOnly === b.readOnly;
}
