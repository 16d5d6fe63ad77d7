import { english } from '../language';
import { PROTECTIONS, REASON_CODES, WHYS, type WireOutcome } from '../wire';
import { personText, protectionText, reasonText, resultText, unknownText } from '../words';
import { after, GIB, NOW } from './fixtures';

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
  shutdowns_per_hour: 20
};

describe('reasonText', () => {
  it.each(REASON_CODES)('has a sentence of its own for %s', code => {
    const text = reasonText({ code, text: 'FALLBACK', facts: FACTS }, NOW, english);
    expect(text).not.toBe('FALLBACK');
    expect(text).toMatch(/\.$/);
    expect(text).not.toMatch(/%\d/);
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

describe('the other words', () => {
  it.each(PROTECTIONS)('protection %s has a sentence', code => {
    expect(protectionText(code, english.trans)).not.toBe(code);
  });

  it.each(WHYS)('why %s has words', why => {
    expect(unknownText(why, english.trans)).not.toBe(why);
  });

  it('does not show the random name of a person who has none', () => {
    expect(personText('8b69166468a24cb3a94262987d47dda2', english.trans)).toBe('Somebody');
    expect(personText('anna', english.trans)).toBe('anna');
  });

  it('shows the bare word of a newer server', () => {
    expect(protectionText('serving', english.trans)).toBe('serving');
    expect(unknownText('eclipse', english.trans)).toBe('eclipse');
  });

  it('tells each result of each act apart', () => {
    const results: WireOutcome['result'][] = ['done', 'rehearsed', 'already-gone', 'withdrawn', 'failed'];
    const texts = results.map(result => resultText({ action: 'shutdown', result }, english.trans));
    expect(new Set(texts).size).toBe(results.length);
    expect(resultText({ action: 'warn', result: 'done' }, english.trans)).toBe('warned');
  });
});
