import { defineConfig } from "vitest/config";

/** On the engine one file at a time, and one group after the other: they share the machine and what was built. */
const engine = (groupOrder: number) => ({
	testTimeout: 120_000,
	hookTimeout: 300_000,
	fileParallelism: false,
	sequence: { groupOrder },
});

export default defineConfig({
	test: {
		projects: [
			{ extends: true, test: { name: "unit", include: ["test/unit/**/*.test.ts"], testTimeout: 20_000 } },
			{ extends: true, test: { name: "contract", include: ["test/contract/**/*.test.ts"], ...engine(1) } },
			{
				extends: true,
				test: {
					name: "integration",
					include: ["test/integration/**/*.test.ts", "test/cli/**/*.test.ts"],
					...engine(2),
				},
			},
			{ extends: true, test: { name: "package", include: ["test/package/**/*.test.ts"], ...engine(3) } },
		],
	},
});
