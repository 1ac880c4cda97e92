import { execSuite } from "../support/exec-suite.js";

execSuite("engine");
