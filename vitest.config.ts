import { defineConfig } from "vitest/config";

const engine = { testTimeout: 120_000, hookTimeout: 300_000, fileParallelism: false };

export default defineConfig({
	test: {
		projects: [
			{ extends: true, test: { name: "unit", include: ["test/unit/**/*.test.ts"], testTimeout: 20_000 } },
			{ extends: true, test: { name: "contract", include: ["test/contract/**/*.test.ts"], ...engine } },
			{
				extends: true,
				test: {
					name: "integration",
					include: ["test/integration/**/*.test.ts", "test/cli/**/*.test.ts"],
					...engine,
				},
			},
			{ extends: true, test: { name: "package", include: ["test/package/**/*.test.ts"], ...engine } },
		],
	},
});
