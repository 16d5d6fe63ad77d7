import { detailText } from '../endings';
import { english } from '../language';
import { reasonText } from '../reasons';
import { viewOf } from '../view';
import { argumentTexts, problemTexts } from '../why';
import { ARGUMENT_CODES, OUTCOME_CODES, PROBLEM_CODES, type WireReason } from '../wire';
import { whoText } from '../words';
import { after, GIB, holder, NOW, outcome, report } from './fixtures';

const FACTS = {
  freed_bytes: 2 * GIB,
  free_bytes: 2 * GIB,
  devices: 'GPU 0, GPU 1 and GPU 2 MIG 0',
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
  device: 'NVIDIA H100',
  needed_bytes: 3 * GIB,
  wait_seconds: 60,
  its_seconds: 600,
  our_seconds: 7200,
  newly_count: 1,
  holder_count: 2,
  entry_count: 3,
  file_count: 70,
  most_count: 64,
  step: 'shutdown',
  moment: after(60),
  owner: 'kernel:k1',
  state: 'executing',
  port: '6006',
  language: 'julia',
  status: '1',
  function: 'save',
  functions: 'save, close',
  setting: 'c.GpuGuard.parking',
  version: '12.4',
  place: '/srv/gpu',
  hash: 'a1b2',
  damage: 'it is not JSON',
  file: 'leases.json.broken-1',
  name: 'a.ipynb',
  teller: 'webhook',
  mode: 'enforce',
  source: 'site.yaml',
  rule: 'default',
  protections: 'leased, executing'
};
const part = (code: string, text = 'As the server says it'): WireReason => ({ code, text, facts: FACTS });
const detail = (...said: WireReason[]): string => detailText(outcome({ detail: 'freed 2.0 GiB', said }), NOW, english);

describe('what the server says', () => {
  it.each([...OUTCOME_CODES, ...PROBLEM_CODES, ...ARGUMENT_CODES])('has words of ours for %s, with its facts', code => {
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

  it('is an argument line by line, and in English from an older server', () => {
    const told = { holder: holder(), lines: ['Rule: default.'], passed_over: [] };
    const argument = [
      { code: 'argument-rule', text: 'x', facts: { rule: 'night' } },
      { code: 'next-in', text: 'x', facts: { step: 'shutdown', wait_seconds: 900 } },
      { code: 'from-tomorrow', text: 'A newer line.', facts: {} }
    ];
    expect(argumentTexts({ ...told, argument }, NOW, english)).toEqual([
      'Rule: night.',
      'Next: a shutdown, in 15 min at the earliest.',
      'A newer line.'
    ]);
    expect(argumentTexts(told, NOW, english)).toEqual(['Rule: default.']);
  });

  it('is a problem of the guard, and in English from an older server', () => {
    const health = {
      status: 'degraded' as const,
      version: '0',
      mode: 'observe' as const,
      simulated: false,
      last_tick_at: null,
      ticks: 0,
      problems: ['As it is.']
    };
    expect(problemTexts({ ...health, said: [part('audit-lost')] }, NOW, english)).toEqual([
      'Lost: 3 entries of the audit in /srv/gpu.'
    ]);
    expect(problemTexts(health, NOW, english)).toEqual(['As it is.']);
  });

  it('is the fault of a policy for whoever is not told where it is', () => {
    const policy = { hash: '', source: 'site.yaml', fault: 'Nothing of it.', pending: null };
    const fault = (said: WireReason | null): string | null =>
      viewOf(report({ policy: { ...policy, said } }), NOW, english, new Set()).policyFault;
    expect(fault(part('policy-kept'))).toContain('the one before is in force');
    expect(fault(null)).toBe('Nothing of it.');
  });

  it('says what is waited for, and who is there', () => {
    const said = part('waits-for-room-of');
    const facts = { ...FACTS, device: 'its device', who: 'others.ipynb 3.0 GiB, others 2.0 GiB' };
    expect(reasonText({ ...said, facts }, NOW, english)).toBe(
      'it waits for room: it needs 3.0 GiB on its device, free there: 2.0 GiB (held by others.ipynb 3.0 GiB, others 2.0 GiB)'
    );
  });

  it('says that it is not known how much room there is', () => {
    const facts = { device: 'GPU 0', needed_bytes: 3 * GIB, free_bytes: null, held_by: '' };
    expect(reasonText({ code: 'waiting-for-room', text: '', facts }, NOW, english)).toBe(
      'It is to come back and waits for room on GPU 0: it needs 3.0 GiB. Free there: not known.'
    );
  });

  it('puts who holds a device into the words of this language', () => {
    const trans = { ...english.trans, __: (text: string, ...given: unknown[]) => [`<${text}>`, ...given].join(' ') };
    const text = (who: string): string => whoText(who, trans);
    expect(text('pid 7 (state D)')).toBe('<pid %1 (state %2)> 7 D');
    expect(text('pid 7 (state D, it is never signalled), pid 8 (state S)')).toBe(
      '<pid %1 (state %2, %3)> 7 D <it is never signalled>, <pid %1 (state %2)> 8 S'
    );
    expect(text('a.ipynb 3.0 GiB, others (not known how much)')).toBe(
      'a.ipynb 3.0 GiB, <others %1> <(not known how much)>'
    );
    expect(text('others 2.0 GiB')).toBe('<others %1> 2.0 GiB');
    expect(text('my others 2.0 GiB')).toBe('my others 2.0 GiB');
  });
});
