import type { TranslationBundle } from '@jupyterlab/translation';
import { bytes, duration, moment, percent } from './format';
import type { ILanguage } from './language';
import type { PROTECTIONS, REASON_CODES, WHYS, WireOutcome, WireReason } from './wire';

type Known<T extends readonly string[]> = T[number];
type ReasonCode = Known<typeof REASON_CODES>;

class NoSuchFact extends Error {}

/** Reads the facts of one reason in words. A fact that is not there makes the sentence impossible. */
class Facts {
  constructor(
    private readonly facts: WireReason['facts'],
    private readonly now: number,
    private readonly language: ILanguage
  ) {
    this.trans = language.trans;
  }

  readonly trans: TranslationBundle;

  bytes(name: string): string {
    return bytes(this.number(name));
  }

  percent(name: string): string {
    return percent(this.number(name));
  }

  span(name: string): string {
    return duration(this.number(name), this.trans);
  }

  moment(name: string): string {
    return moment(this.word(name), this.now, this.language);
  }

  number(name: string): number {
    const fact = this.facts[name];
    if (typeof fact !== 'number') {
      throw new NoSuchFact(name);
    }
    return fact;
  }

  word(name: string): string {
    const fact = this.facts[name];
    if (typeof fact !== 'string') {
      throw new NoSuchFact(name);
    }
    return fact;
  }

  person(name: string): string {
    return personText(this.word(name), this.trans);
  }

  /** `: …` where there is something to add. */
  aside(name: string): string {
    const fact = this.facts[name];
    return typeof fact === 'string' && fact !== '' ? this.trans.__(': %1', fact) : '';
  }
}

const REASONS: Record<ReasonCode, (facts: Facts) => string> = {
  'rule-keeps': f => f.trans.__('Rule %1 leaves it alone.', f.word('rule')),
  never: f => f.trans.__('Rule %1 sets no time limit.', f.word('rule')),
  'unknown-reading': f =>
    f.word('what') === 'memory'
      ? f.trans.__(
          'Its GPU memory is not known: %1%2. What is not known never counts as idle.',
          unknownText(f.word('why'), f.trans),
          f.aside('detail')
        )
      : f.trans.__(
          'Its compute is not known: %1%2. What is not known never counts as idle.',
          unknownText(f.word('why'), f.trans),
          f.aside('detail')
        ),
  'not-local': f => f.trans.__('Its process is not on this machine, or has ended. It is not judged here.'),
  'holds-little': f =>
    f.trans.__('It holds %1, less than the limit of %2.', f.bytes('memory_bytes'), f.bytes('memory_above_bytes')),
  computing: f =>
    f.trans.__(
      'It computes: %1 since the last look. From %2 on it counts as use.',
      f.percent('compute_percent'),
      f.percent('compute_below_percent')
    ),
  'idle-not-long': f =>
    f.trans.__(
      'It holds %1 and was seen idle for %2. The limit is %3.',
      f.bytes('memory_bytes'),
      f.span('idle_seconds'),
      f.span('for_seconds')
    ),
  'idle-too-long': f =>
    f.trans.__(
      'It held %1 with less than %2 compute for %3. The limit is %4.',
      f.bytes('memory_bytes'),
      f.percent('compute_below_percent'),
      f.span('idle_seconds'),
      f.span('for_seconds')
    ),
  'state-warns-only': f =>
    f.trans.__('Its state is “%1”: by itself, nothing but a warning follows.', stateWord(f.word('state'), f.trans)),
  leased: f => f.trans.__('%1 keeps it until %2%3.', f.person('by'), f.moment('until'), f.aside('reason')),
  'notice-running': f => f.trans.__('The next step comes in %1 at the earliest.', f.span('wait_seconds')),
  'ladder-done': f => f.trans.__('All steps of the rule have been taken.'),
  belt: f =>
    f.trans.__(
      'Held back: at most %1 are shut down at once, and %2 in an hour.',
      f.number('shutdowns_per_tick'),
      f.number('shutdowns_per_hour')
    ),
  acting: f => f.trans.__('A step is under way.'),
  'retry-later': f => f.trans.__('The last attempt failed. The next one comes in %1.', f.span('wait_seconds')),
  observing: f => f.trans.__('The guard only observes: nothing is ended.'),
  asked: f => f.trans.__('%1 asked for it.', f.person('by'))
};

/** The sentence for one reason; its English text where we have no words for it. */
export function reasonText(reason: WireReason, now: number, language: ILanguage): string {
  const sentence = (REASONS as Partial<Record<string, (facts: Facts) => string>>)[reason.code];
  try {
    return sentence?.(new Facts(reason.facts, now, language)) ?? reason.text;
  } catch (error) {
    if (error instanceof NoSuchFact) {
      return reason.text;
    }
    throw error;
  }
}

/** A person's name. Jupyter gives those who come with a bare token a random one, which says nothing to anybody. */
export function personText(name: string, trans: TranslationBundle): string {
  return /^[0-9a-f]{32}$/.test(name) ? trans.__('Somebody') : name;
}

/** `text`, with the word that tells simulated devices from real ones. */
export function labelled(text: string, simulated: boolean, trans: TranslationBundle): string {
  return simulated ? trans.__('%1 (simulated)', text) : text;
}

/** What an owner is doing, in a word. */
export function stateWord(state: string, trans: TranslationBundle): string {
  switch (state) {
    case 'idle':
      return trans.__('idle');
    case 'executing':
      return trans.__('running');
    case 'starting':
      return trans.__('starting');
    case 'dead':
      return trans.__('ended');
    default:
      return trans.__('not known');
  }
}

/** What spares a holder now. */
export function protectionText(code: string, trans: TranslationBundle): string {
  const texts: Record<Known<typeof PROTECTIONS>, string> = {
    leased: trans.__('Somebody asked to keep it.'),
    executing: trans.__('It is running a cell.'),
    unknown: trans.__('Something about it is not known, and what is not known is never taken for idle.'),
    exempt: trans.__('The policy leaves it alone.')
  };
  return (texts as Partial<Record<string, string>>)[code] ?? code;
}

/** Why a reading is not known. */
export function unknownText(why: string, trans: TranslationBundle): string {
  const texts: Record<Known<typeof WHYS>, string> = {
    'not-supported': trans.__('the device or its driver does not offer this'),
    'no-permission': trans.__('the driver does not let this user see it'),
    'first-reading': trans.__('it takes two readings, and this was the first'),
    'not-read': trans.__('its source did not answer'),
    'not-available': trans.__('the driver has no value for it'),
    implausible: trans.__('the driver contradicts itself'),
    'device-lost': trans.__('the device is lost'),
    'driver-error': trans.__('the driver reported an error'),
    'pids-hidden': trans.__('the driver names processes that cannot be seen from here'),
    'not-local': trans.__('it runs on another machine')
  };
  return (texts as Partial<Record<string, string>>)[why] ?? why;
}

/** How an act ended, in one or two words. */
export function resultText(outcome: Pick<WireOutcome, 'action' | 'result'>, trans: TranslationBundle): string {
  const warning = outcome.action === 'warn';
  switch (outcome.result) {
    case 'done':
      return warning ? trans.__('warned') : trans.__('shut down');
    case 'rehearsed':
      return warning ? trans.__('would have been warned') : trans.__('would have been shut down');
    case 'already-gone':
      return trans.__('ended by itself');
    case 'withdrawn':
      return trans.__('left alone: in use again');
    case 'failed':
      return warning ? trans.__('could not be warned') : trans.__('could not be shut down');
  }
}
