import { detailText } from '../endings';
import { english } from '../language';
import { reasonText } from '../reasons';
import { viewOf } from '../view';
import { SAID_CODES, type WireReason } from '../wire';
import { after, GIB, NOW, outcome, report } from './fixtures';

const FACTS = {
  freed_bytes: 2 * GIB,
  held_bytes: GIB,
  took_seconds: 2.1,
  limit_seconds: 30,
  process_count: 3,
  who: 'pid 7 (state D)',
  kind: 'OSError',
  pid: '7',
  index: '0',
  framework: 'PyTorch',
  fault: 'RuntimeError',
  command: '%gpu_guard release errors',
  detail: 'error 9',
  device: 'NVIDIA H100'
};
const part = (code: string, text = 'As the server says it'): WireReason => ({ code, text, facts: FACTS });
const detail = (...said: WireReason[]): string => detailText(outcome({ detail: 'freed 2.0 GiB', said }), NOW, english);

describe('what the server says', () => {
  it.each(SAID_CODES)('has words of ours for %s, with its facts', code => {
    const text = reasonText(part(code), NOW, english);
    expect(text).not.toBe('As the server says it');
    expect(text).not.toMatch(/%\d|undefined|null/);
  });

  it('is as the server says it where a fact is missing', () => {
    expect(reasonText({ code: 'freed-in', text: 'Freed some.', facts: {} }, NOW, english)).toBe('Freed some.');
  });

  it('is a sentence of all its parts, known or not', () => {
    expect(detail(part('freed-in'), part('', 'and so on'))).toBe('Freed 2.0 GiB in 2.1 s; and so on.');
    expect(detail(part('freed-but-held'))).toBe('Freed 2.0 GiB in 2.1 s, but 1.0 GiB still held by pid 7 (state D).');
    expect(detail()).toBe('Freed 2.0 GiB.');
    expect(detailText(outcome({ detail: 'Ended by Jupyter.' }), NOW, english)).toBe('Ended by Jupyter.');
    expect(detailText(outcome({ detail: '' }), NOW, english)).toBe('');
  });

  it('does not say twice that there was nothing to give back', () => {
    const release = (freed: number | null, ...said: WireReason[]): string =>
      detailText(outcome({ action: 'release', freed_bytes: freed, said }), NOW, english);
    expect(release(0, part('nothing-to-give'), part('no-framework'))).toBe('It uses no framework that can be asked.');
    expect(release(0, part('nothing-to-give'))).toBe('');
    expect(release(null, part('nothing-to-give'))).toBe('Nothing to give back.');
  });

  it('is shown for a source that is silent', () => {
    const gap = { source: 'devices', why: 'Silence.', since: after(-60) };
    const texts = (said: WireReason | null): string[] =>
      viewOf(report({ gaps: [{ ...gap, said }] }), NOW, english, new Set()).gaps.map(each => each.text);
    expect(texts(part('no-gpu'))[0]).toContain('The NVIDIA driver finds no GPU');
    expect(texts(null)[0]).toContain('Silence. (since');
  });
});
