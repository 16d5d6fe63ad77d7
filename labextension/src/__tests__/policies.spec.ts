import { english } from '../language';
import { passedOverTexts, policyText } from '../policies';
import { after, FakeApi, GIB, NOW } from './fixtures';

const inForce = new FakeApi().inForce;
const read = (changes: Partial<typeof inForce> = {}): ReturnType<typeof policyText> =>
  policyText({ ...inForce, ...changes }, NOW, english);

describe('the policy in words', () => {
  it('says whether it ends anything, where it is from, and what limits all rules', () => {
    expect(read().lines).toEqual([
      'Mode enforce: what the rules say is done.',
      'From /etc/jupyter/gpu-guard/policy.d/site.yaml',
      'Limits for all rules: at most 20 shutdowns per hour'
    ]);
    expect(read({ mode: 'observe', belts: {} }).lines).toHaveLength(2);
    expect(read({ mode: 'observe' }).lines[0]).toContain('nothing is ended');
  });

  it('has words for each limit, and shows one that is newer than this page as it is', () => {
    const belts = { shutdowns_per_hour: 1, shutdowns_per_tick: 5, share_of_holders_percent: 50, newer: 3 };
    expect(read({ belts }).lines[2]).toBe(
      'Limits for all rules: at most 1 shutdown per hour; at most 5 shutdowns at once; ' +
        'a new policy that would newly end more than 50 % of those that hold GPU memory waits for an administrator; newer: 3'
    );
  });

  it('has the keys of a file in words, and values with their units', () => {
    const [students, rest] = read().rules;
    expect(students).toEqual({
      name: 'students',
      match: ['group: students'],
      limit: null,
      ladder: ['warn: as soon as the limit is reached', 'shutdown: 15 min after the limit is reached'],
      settings: [
        { key: 'keep', words: 'Left alone', value: 'no' },
        { key: 'notice', words: 'Warned so long before a loss', value: '15 min' },
        { key: 'idle.for', words: 'Idle: for at least', value: '30 min' },
        { key: 'idle.memory_above', words: 'Idle: holds at least', value: '512 MiB' }
      ]
    });
    expect(rest.match).toEqual([]);
  });

  it('says from when on a rule acts, where that is by time', () => {
    const settings = { 'idle.for_seconds': 7200, 'idle.compute_below_percent': 5, 'idle.memory_above_bytes': GIB };
    const limit = (changes: object): string | null =>
      read({ rules: [{ name: 'a', match: {}, settings: { ...settings, ...changes }, ladder: [] }] }).rules[0].limit;
    expect(limit({})).toBe('limit: 1.0 GiB held with less than 5 % compute for 2 h');
    expect(limit({ 'idle.for_seconds': null })).toBeNull();
    expect(limit({ 'idle.for_seconds': 0 })).toBeNull();
  });

  it('leaves out what is not set', () => {
    const settings = { 'idle.for_seconds': null, 'idle.compute_below_percent': 5, 'idle.memory_above_bytes': GIB };
    expect(read({ rules: [{ name: 'a', match: {}, settings, ladder: [] }] }).rules[0].settings).toEqual([
      { key: 'idle.compute_below', words: 'Idle: less compute than', value: '5 %' },
      { key: 'idle.memory_above', words: 'Idle: holds at least', value: '1.0 GiB' }
    ]);
    const newer = { 'states.executing_seconds': null, 'states.serving_seconds': 60, 'asleep.for_seconds': 60 };
    expect(
      read({ rules: [{ name: 'a', match: {}, settings: newer, ladder: [] }] }).rules[0].settings.map(
        ({ words }) => words
      )
    ).toEqual(['Idle limit while it is: serving', null]);
  });

  it('says what is left of the budgets that can concern this user', () => {
    const budget = {
      name: 'student-week',
      match: {},
      per: 'user' as const,
      measure: 'idle_gib_hours' as const,
      window_seconds: 604800,
      used: 12.256,
      unknown_seconds: 0,
      limit: 40,
      then: 'used-up',
      applies_to_me: true
    };
    expect(read({ budgets: [budget, { ...budget, name: 'others', applies_to_me: false }] }).budgets).toEqual([
      'student-week: 12.3 of 40 GiB·hours without compute used in 7 d; then rule used-up'
    ]);
    expect(read().budgets).toEqual([]);
  });

  it('names the exemptions', () => {
    const exemption = { match: { user: 'anna' }, until: after(3600), reason: 'rebuttal' };
    expect(read({ exemptions: [exemption] }).exemptions[0]).toMatch(
      /^user: anna: left alone until \d\d:\d\d, rebuttal$/
    );
    expect(read().exemptions).toEqual([]);
  });
});

describe('rules that were passed over', () => {
  it('say what does not fit, or that they are on trial', () => {
    expect(
      passedOverTexts(
        [
          { rule: 'students', unmet: ['group', 'during'] },
          { rule: 'trial', unmet: [] }
        ],
        english
      )
    ).toEqual(['students: does not fit (group, during)', 'trial: is on trial, and only says what it would do']);
  });
});
