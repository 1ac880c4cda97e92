/** The whole public surface: every name listed, types apart. */

export type { ContainerState, PublishedPort } from "./engine/engine.js";
export type { CodeLanguage, CodeOptions } from "./exec/code.js";
export type { ExecPath } from "./exec/commands.js";
export type { Processes, ProcessInfo } from "./exec/processes.js";
export type { LogChunk } from "./exec/processes-logs.js";
export type { LogsOptions, ProcessOptions, WaitOptions } from "./exec/processes-request.js";
export type { Command, ExecInput, ExecOptions, ExecResult, TerminalSize } from "./exec/request.js";
export type { Shell, ShellResult } from "./exec/shell.js";
export type { ShellOptions, ShellRunOptions } from "./exec/shell-request.js";
export type { SpawnedCommand, WebStreams } from "./exec/spawned-command.js";
export type { SpawnOptions, TerminalSpawnOptions } from "./exec/spawned-request.js";
export type { Terminal } from "./exec/spawned-terminal.js";
export type { ImageInfo, RuntimeSource } from "./images/images.js";
export type { Clock } from "./primitives/clock.js";
export type {
	AnySandboxError,
	EngineFailure,
	ErrorCode,
	ErrorDetails,
	SandboxErrorOptions,
	UnreachableCause,
} from "./primitives/errors.js";
export { ERROR_CODES, isSandboxError, SandboxError } from "./primitives/errors.js";
export type { Progress, ProgressSink } from "./primitives/progress.js";
export type { Bytes } from "./primitives/units.js";
export {
	bytes,
	formatDuration,
	formatSize,
	GiB,
	KiB,
	MiB,
	parseDuration,
	parseSize,
	TiB,
} from "./primitives/units.js";
export type { ShapeDefaults } from "./sandboxes/defaults.js";
export { DEFAULT_PREFIX, DEFAULT_RUNTIME, DEFAULTS, RUNTIME_DEFAULTS } from "./sandboxes/defaults.js";
export type { EventSink, Outcome, SandboxEvent } from "./sandboxes/events.js";
export type { SandboxInfo } from "./sandboxes/list.js";
export { NAME_RULE } from "./sandboxes/names.js";
export type {
	CallOptions,
	CreateOptions,
	ImageChoice,
	MountOption,
	PlanOptions,
	PortOption,
	ProgressCallOptions,
	ShapeOptions,
} from "./sandboxes/options.js";
export type { Reason } from "./sandboxes/reasons.js";
export { describeReason } from "./sandboxes/reasons.js";
export { Sandbox } from "./sandboxes/sandbox.js";
export type { PlanResult, RuntimeImages, SandboxesOptions } from "./sandboxes/sandboxes.js";
export { Sandboxes } from "./sandboxes/sandboxes.js";
export type { Adjustable, Mismatch, MountShape, PortShape, RuleName, Shape } from "./sandboxes/shape.js";
export { RULES } from "./sandboxes/shape.js";
