import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isOurs, LABEL, LABEL_VERSION, parseLabels, toLabels } from "../../../src/sandboxes/labels.js";
import { baseShape, recorded, shapeArbitrary } from "../../support/shapes.js";

const fleet = { rootId: "root-1", prefix: "sbx" };

describe("labels", () => {
	test("what is written is what is read, for every shape", () => {
		fc.assert(
			fc.property(shapeArbitrary, fc.dictionary(fc.string(), fc.string()), (shape, labels) => {
				const written = recorded(shape, { labels: { ...labels } });
				expect(parseLabels(toLabels(fleet, "w", written))).toEqual({ ok: true, recorded: written });
			}),
		);
	});

	test("labels never hold environment values", () => {
		expect(Object.keys(toLabels(fleet, "w", recorded())).join(" ")).not.toContain("env");
	});

	test.each(
		Object.values(LABEL).filter(
			(label) => ![LABEL.root, LABEL.prefix, LABEL.role, LABEL.name, LABEL.image, LABEL.libc].includes(label as never),
		),
	)("without %s they are unreadable, and no error", (label) => {
		const { [label]: _gone, ...rest } = toLabels(fleet, "w", recorded());
		expect(parseLabels(rest).ok).toBe(false);
		expect(parseLabels({ ...rest, [label]: "\u0000{broken" }).ok).toBe(false);
	});

	test("a later version is unreadable", () => {
		const labels = { ...toLabels(fleet, "w", recorded()), [LABEL.version]: String(LABEL_VERSION + 1) };
		expect(parseLabels(labels)).toEqual({ ok: false, problem: expect.stringContaining("later version") });
	});

	test("a shape with a field of a later kind is unreadable rather than half read", () => {
		const shape = JSON.stringify({ ...baseShape, gpus: 1 });
		expect(parseLabels({ ...toLabels(fleet, "w", recorded()), [LABEL.shape]: shape }).ok).toBe(false);
	});

	test("no labels whatever throw", () => {
		fc.assert(
			fc.property(
				fc.dictionary(fc.constantFrom(...Object.values(LABEL)), fc.string()),
				(labels) => void expect(typeof parseLabels(labels).ok).toBe("boolean"),
			),
		);
	});

	test("ours is the same prefix and the same root id, and the role", () => {
		const labels = toLabels(fleet, "w", recorded());
		expect(isOurs(labels, fleet)).toBe(true);
		expect(isOurs(labels, { ...fleet, prefix: "sbx2" })).toBe(false);
		expect(isOurs(labels, { ...fleet, rootId: "root-2" })).toBe(false);
		expect(isOurs({ ...labels, [LABEL.role]: "helper" }, fleet)).toBe(false);
		expect(isOurs({}, fleet)).toBe(false);
	});
});
