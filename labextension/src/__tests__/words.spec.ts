import { english } from '../language';
import { PROTECTIONS, REASON_CODES, WHYS, type WireOutcome } from '../wire';
import { reasonText, reasonTexts } from '../reasons';
import { personText, protectionText, resultText, stateWord, unknownText } from '../words';
import { after, GIB, NOW, outcome } from './fixtures';

const FACTS = {
  rule: 'students',
  what: 'compute',
  why: 'not-read',
  detail: 'it hangs',
  state: 'executing',
  until: after(3600),
  by: 'anna',
  reason: 'a demo',
  memory_bytes: 6 * GIB,
  memory_above_bytes: GIB,
  compute_percent: 0,
  compute_below_percent: 5,
  idle_seconds: 4800,
  for_seconds: 3600,
  wait_seconds: 840,
  shutdowns_per_tick: 5,
  shutdowns_per_hour: 20,
  processes: 4,
  died: 1,
  unwatched_seconds: 9000,
  unwatched_for_seconds: 7200,
  pulses: 12,
  mean_percent: 0.4,
  mean_below_percent: 2,
  over_seconds: 21600,
  would: 'shutdown',
  device: 'GPU 0',
  needed_bytes: 6 * GIB,
  free_bytes: GIB,
  held_by: 'train.ipynb 70.0 GiB, others 3.0 GiB',
  budget: 'student-week',
  measure: 'idle_gib_hours',
  used: 45.23,
  limit: 40,
  window_seconds: 604800
};

describe('reasonText', () => {
  it.each(REASON_CODES)('has a sentence of its own for %s', code => {
    const text = reasonText({ code, text: 'FALLBACK', facts: FACTS }, NOW, english);
    expect(text).not.toBe('FALLBACK');
    expect(text).toMatch(/\.$/);
    expect(text).not.toMatch(/%\d/);
  });

  it('says what is left of a budget with the digits that count', () => {
    const facts = { ...FACTS, rule: 'used-up', measure: 'gpu_hours', used: 1234.5, limit: 1000 };
    expect(reasonText({ code: 'over-budget', text: '', facts }, NOW, english)).toBe(
      'Budget student-week is used up: 1235 of 1000 GPU·hours in 7 d. So rule used-up decides about it.'
    );
  });

  it('says why nothing follows where another server runs kernels in a terminal', () => {
    const said = (facts: Record<string, string | number>) =>
      reasonText({ code: 'state-warns-only', text: '', facts }, NOW, english);
    expect(said({ state: 'unknown', kernels_within: 1 })).toMatch(/^Another server or program runs kernels in it/);
    expect(said({ state: 'unknown' })).toMatch(/^Its state is/);
  });

  it('gives the remedies after a failed cell in their order, the softest first', () => {
    const text = reasonText({ code: 'last-cell-failed', text: '', facts: {} }, NOW, english);
    const [why, ...remedies] = text.split('\n');
    expect(why).toContain('Its last cell ended in an error');
    expect(remedies.map(line => line.slice(0, 8))).toEqual(['1. Run i', '2. Empty', '3. Resta']);
    expect(remedies[0]).toContain('sys.last_exc = sys.last_value = sys.last_traceback = None');
  });

  it('says who left memory behind, and does not make up how much', () => {
    const left = (facts: Record<string, number | null>): string =>
      reasonText({ code: 'left-behind', text: 'FALLBACK', facts }, NOW, english);
    expect(left({ processes: 4, memory_bytes: 4 * GIB, died: 1 })).toBe(
      'The kernel died; 4 processes it had started hold 4.0 GiB.'
    );
    expect(left({ processes: 1, memory_bytes: null, died: 0 })).toBe(
      '1 process left behind by an earlier run holds GPU memory (how much is not known).'
    );
  });

  it('marks what is inferred, but not limits and times, where one of the reasons says that it is an estimate', () => {
    const reasons = [
      { code: 'idle-not-long', text: '', facts: FACTS },
      { code: 'holds-little', text: '', facts: FACTS },
      { code: 'estimated', text: '', facts: {} }
    ];
    expect(reasonTexts(reasons, NOW, english).slice(0, 2)).toEqual([
      'It holds ≈ 6.0 GiB and was seen idle for 1 h 20 min. The limit is 1 h.',
      'It holds ≈ 6.0 GiB, less than the limit of 1.0 GiB.'
    ]);
    expect(reasonTexts(reasons.slice(0, 1), NOW, english)[0]).toContain('It holds 6.0 GiB');
  });

  it('names what is not known of a TensorBoard', () => {
    const facts = { what: 'visitors', why: 'not-read', detail: '' };
    expect(reasonText({ code: 'unknown-reading', text: '', facts }, NOW, english)).toContain(
      'Whether anybody looks at it is not known: its source did not answer.'
    );
  });

  it('falls back to the English text for a code it does not know', () => {
    expect(reasonText({ code: 'new-code', text: 'A newer server says so.', facts: {} }, NOW, english)).toBe(
      'A newer server says so.'
    );
  });

  it('falls back to the English text when a fact is missing, and never writes "undefined"', () => {
    const reason = { code: 'idle-too-long', text: 'Idle too long.', facts: { memory_bytes: null } };
    expect(reasonText(reason, NOW, english)).toBe('Idle too long.');
  });

  it('puts the numbers in', () => {
    const reason = { code: 'idle-too-long', text: '', facts: FACTS };
    expect(reasonText(reason, NOW, english)).toBe(
      'It held 6.0 GiB with less than 5 % compute for 1 h 20 min. The limit is 1 h.'
    );
  });
});

describe('who keeps it', () => {
  const told = (by: string, ...names: string[]): string =>
    reasonText({ code: 'leased', text: '', facts: { ...FACTS, by } }, NOW, { ...english, names: () => names });

  it('is told without a name to whom it is, and where the name is made up', () => {
    expect(told('anna', 'anna')).toMatch(/^You keep it until \d\d:\d\d: a demo\.$/);
    expect(told('Anonymous Kalyke', 'Anonymous Kalyke', '8b69')).toMatch(/^You keep it until/);
    expect(told('Anonymous Kalyke', 'Anonymous Io')).toMatch(/^It is kept until \d\d:\d\d: a demo\.$/);
    expect(told('8b69166468a24cb3a94262987d47dda2')).toMatch(/^It is kept until/);
    expect(told('anna', 'ben')).toMatch(/^anna keeps it until/);
  });
});

describe('the other words', () => {
  it.each(PROTECTIONS)('protection %s has a sentence', code => {
    expect(protectionText(code, english.trans)).not.toBe(code);
  });

  it.each(WHYS)('why %s has words', why => {
    expect(unknownText(why, english.trans)).not.toBe(why);
  });

  it('does not show the random name of a person who has none', () => {
    expect(personText('8b69166468a24cb3a94262987d47dda2', english.trans)).toBe('Somebody');
    expect(personText('Anonymous Kalyke', english.trans)).toBe('Somebody');
    expect(personText('anna', english.trans)).toBe('anna');
  });

  it('shows the bare word of a newer server', () => {
    expect(protectionText('asleep', english.trans)).toBe('asleep');
    expect(unknownText('eclipse', english.trans)).toBe('eclipse');
  });

  it('has a word of its own for each state', () => {
    const states = ['idle', 'executing', 'waiting-for-input', 'at-breakpoint', 'serving', 'input-bound', 'starting'];
    const words = [...states, 'dead', 'unknown'].map(state => stateWord(state, english.trans));
    expect(new Set(words).size).toBe(states.length + 2);
  });

  it('tells each result of each act apart', () => {
    const results: WireOutcome['result'][] = ['done', 'rehearsed', 'already-gone', 'withdrawn', 'failed', 'unknown'];
    const texts = results.map(result => resultText(outcome({ result }), english.trans));
    expect(new Set(texts).size).toBe(results.length);
    const acts: WireOutcome['action'][] = ['warn', 'release', 'park', 'resume', 'shutdown'];
    for (const result of ['done', 'rehearsed', 'failed'] as const) {
      expect(new Set(acts.map(action => resultText(outcome({ action, result }), english.trans))).size).toBe(5);
    }
  });
});
