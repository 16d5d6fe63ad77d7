process.env.DEBUG_PRINT_LIMIT = '0'; // a failed query says what it sought, not the whole page

// JupyterLab's packages are ES modules: they are compiled for the tests too.
const esModules = [
  '@jupyterlab',
  '@jupyter',
  '@microsoft',
  '@rjsf',
  'exenv-es6',
  'lib0',
  'y-protocols',
  'yjs',
  'nanoid'
];
const compile = ['ts-jest', { tsconfig: 'tsconfig.test.json', diagnostics: false }];

module.exports = {
  testEnvironment: '<rootDir>/jest.environment.js',
  testMatch: ['<rootDir>/src/__tests__/**/*.spec.ts?(x)'],
  transform: { '\\.[jt]sx?$': compile },
  transformIgnorePatterns: [`/node_modules/(?!(${esModules.join('|')})/)`],
  moduleNameMapper: { '\\.(css|svg)$': '<rootDir>/jest.asset.js' },
  setupFiles: ['<rootDir>/jest.setup.js']
};
