const { TestEnvironment } = require('jest-environment-jsdom');

// jsdom has no fetch; Node's own is the real thing.
module.exports = class extends TestEnvironment {
  async setup() {
    await super.setup();
    Object.assign(this.global, { fetch, Headers, Request, Response, TextEncoder, TextDecoder });
  }
};
