import { FakeEngine } from "../support/fake-engine.js";
import { engineContract } from "./engine-contract.js";
import { contractBuilder, contractProgram } from "./fake-programs.js";

engineContract("the fake engine", async () => {
	const engine = new FakeEngine({ program: contractProgram, builder: contractBuilder });
	engine.addImage({ tags: ["fake:1"], files: { "/etc/os-release": "ID=fake\n" } });
	return {
		engine,
		image: "fake:1",
		labels: { test: "contract" },
		prefix: "contract",
		bridge: "bridge",
		close: async () => {},
	};
});
