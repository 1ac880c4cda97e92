/** A program that runs a few commands and has then nothing more to do. */
import { connectEngine } from "../../src/engine/docker-engine.js";
import { Commands } from "../../src/exec/commands.js";

const [id = "", name = "", stay = ""] = process.argv.slice(2);
const commands = new Commands(connectEngine());
for (let i = 0; i < 3; i++) {
	const { stdout } = await commands.run({ id, name }, commands.normalise(["echo", `command ${i}`]));
	process.stdout.write(stdout);
}
if (stay) setInterval(() => {}, 1000);
console.log("done");
