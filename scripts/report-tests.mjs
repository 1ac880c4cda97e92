// Prints `N passed, N failed` for a run of the tests and the checks beside it; the status is 0 when nothing failed.
import { readFileSync } from "node:fs";

const [path, passedChecks, failedChecks] = process.argv.slice(2);
let passed = Number(passedChecks);
let failed = Number(failedChecks);
try {
	const results = JSON.parse(readFileSync(path, "utf8"));
	passed += results.numPassedTests;
	failed += results.numFailedTests;
	// A file that could not be run has no failing test of its own, and an error outside of any test neither.
	for (const file of results.testResults) {
		if (file.status === "failed" && !file.assertionResults.some((test) => test.status === "failed")) {
			failed += 1;
			console.log(`FAILED: ${file.name}: ${file.message}`);
		}
	}
	if (!results.success && failed === 0) failed += 1;
	for (const file of results.testResults) {
		for (const test of file.assertionResults) {
			if (test.status === "failed") console.log(`FAILED: ${test.fullName}`);
			if (test.status === "pending" || test.status === "skipped") console.log(`skipped: ${test.fullName}`);
		}
	}
	if (results.numTotalTests === 0) failed += 1;
} catch (error) {
	failed += 1;
	console.log(`FAILED: the tests gave no results: ${error.message}`);
}
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
