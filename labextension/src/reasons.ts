import type { TranslationBundle } from '@jupyterlab/translation';
import { ARGUMENT } from './arguments';
import { bytes, duration, moment, percent } from './format';
import type { ILanguage } from './language';
import { about } from './readings';
import { SAID } from './said';
import { TROUBLES } from './troubles';
import type { REASON_CODES, WireReason } from './wire';
import { deviceText, isNobody, personText, roomText, stateWord, unknownText } from './words';

type ReasonCode = (typeof REASON_CODES)[number];

/** What is inferred where the whole holder is; limits and times are not. */
const INFERRED = ['memory_bytes', 'compute_percent'];

class NoSuchFact extends Error {}

/** Reads the facts of one reason in words. A fact that is not there makes the sentence impossible. */
export class Facts {
  constructor(
    private readonly facts: WireReason['facts'],
    private readonly now: number,
    private readonly language: ILanguage,
    private readonly estimated: boolean
  ) {
    this.trans = language.trans;
  }

  readonly trans: TranslationBundle;

  bytes(name: string): string {
    return this.figure(name, bytes);
  }

  percent(name: string): string {
    return this.figure(name, percent);
  }

  span(name: string): string {
    return duration(this.number(name), this.trans);
  }

  /** A short time as it was measured: `2.1 s`. */
  took(): string {
    return this.trans.__('%1 s', this.number('took_seconds'));
  }

  moment(name: string): string {
    return moment(this.word(name), this.now, this.language);
  }

  has(name: string): boolean {
    return name in this.facts;
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

  /** A number with the digits that count. */
  amount(name: string): string {
    return amount(this.number(name));
  }

  isNull(name: string): boolean {
    return this.facts[name] === null;
  }

  person(name: string): string {
    return personText(this.word(name), this.trans);
  }

  /** Whether that is who reads this. */
  isMe(name: string): boolean {
    return this.language.names?.().includes(this.word(name)) ?? false;
  }

  /** Memory that processes hold, also where its amount is not known. */
  held(name: string): string {
    return this.isNull(name) ? heldText(null, this.trans) : this.bytes(name);
  }

  /** `: …` where there is something to add. */
  aside(name: string): string {
    const fact = this.facts[name];
    return typeof fact === 'string' && fact !== '' ? this.trans.__(': %1', fact) : '';
  }

  private figure(name: string, format: (value: number) => string): string {
    const text = format(this.number(name));
    return this.estimated && INFERRED.includes(name) ? about(text) : text;
  }
}

const REASONS: Record<ReasonCode, (facts: Facts) => string> = {
  'rule-keeps': f => f.trans.__('Rule %1 leaves it alone.', f.word('rule')),
  never: f => f.trans.__('Rule %1 sets no time limit.', f.word('rule')),
  'unknown-reading': f =>
    unknownSentence(f.word('what'), unknownText(f.word('why'), f.trans), f.aside('detail'), f.trans),
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
    f.has('kernels_within')
      ? f.trans.__(
          'Another server or program runs kernels in it, and what they do is not known: by itself, nothing but a warning follows.'
        )
      : f.trans.__('Its state is “%1”: by itself, nothing but a warning follows.', stateWord(f.word('state'), f.trans)),
  leased: f =>
    f.isMe('by')
      ? f.trans.__('You keep it until %1%2.', f.moment('until'), f.aside('reason'))
      : isNobody(f.word('by'))
        ? f.trans.__('It is kept until %1%2.', f.moment('until'), f.aside('reason'))
        : f.trans.__('%1 keeps it until %2%3.', f.word('by'), f.moment('until'), f.aside('reason')),
  exempt: f => f.trans.__('The site leaves it alone until %1: %2.', f.moment('until'), f.word('reason')),
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
  undelivered: f =>
    f.isNull('wait_seconds')
      ? f.trans.__('Nobody has been told so far. Nothing is lost before somebody is.')
      : f.trans.__(
          'Nobody could be told. In that case nothing is lost within %1 of the warning.',
          f.span('wait_seconds')
        ),
  parked: f =>
    f.trans.__(
      'It is parked: %1 that it had on GPUs is in the memory of the host. A cell brings it back.',
      f.bytes('memory_bytes')
    ),
  'waiting-for-room': f =>
    f.trans.__(
      'It is to come back and waits for room on %1: it needs %2. Free there: %3.',
      deviceText(f.word('device'), f.trans),
      f.bytes('needed_bytes'),
      roomText(f.isNull('free_bytes') ? null : f.bytes('free_bytes'), f.word('held_by'), f.trans)
    ),
  'over-budget': f =>
    f.trans.__(
      'Budget %1 is used up: %2 of %3 %4 in %5. So rule %6 decides about it.',
      f.word('budget'),
      f.amount('used'),
      f.amount('limit'),
      measureText(f.word('measure'), f.trans),
      f.span('window_seconds'),
      f.word('rule')
    ),
  observing: f => f.trans.__('The guard only observes: nothing is ended.'),
  asked: f => f.trans.__('%1 asked for it.', f.person('by')),
  attended: f => f.trans.__('It is halted in the debugger, and somebody is connected.'),
  'last-cell-failed': f =>
    [
      f.trans.__(
        'Its last cell ended in an error, and what was saved of that error may hold the memory. In this order:'
      ),
      `1. ${f.trans.__('Run %1', FORGET_THE_ERROR)}`,
      `2. ${f.trans.__('Empty the cache of the framework, such as with %1', 'torch.cuda.empty_cache()')}`,
      `3. ${f.trans.__('Restart the kernel.')}`
    ].join('\n'),
  'run-ended': f =>
    f.trans._n(
      'No cell runs any more, but %1 process that it started holds %2 and computes %3. Stop it if the run is over.',
      'No cell runs any more, but %1 processes that it started hold %2 and compute %3. Stop them if the run is over.',
      f.number('processes'),
      f.held('memory_bytes'),
      f.percent('compute_percent')
    ),
  'left-behind': f => leftText(f.number('died') === 1, f.number('processes'), f.held('memory_bytes'), f.trans),
  estimated: f =>
    f.trans.__(
      'That it is on this GPU is an estimate: the driver names processes that cannot be seen here. Nothing is ended on it unless the rule trusts estimates.'
    ),
  'sole-owner': f =>
    f.trans.__(
      'Its processes are not measured one by one. It is alone on the GPU, so the compute of the GPU stands in for it.'
    ),
  unwatched: f =>
    f.trans.__(
      'Nobody has looked at this TensorBoard for %1. The limit is %2.',
      f.span('unwatched_seconds'),
      f.span('unwatched_for_seconds')
    ),
  trickle: f =>
    f.trans.__(
      'It holds %1 with a mean compute of %2 over the last %3. Less than %4 counts as a trickle.',
      f.bytes('memory_bytes'),
      f.percent('mean_percent'),
      f.span('over_seconds'),
      f.percent('mean_below_percent')
    ),
  'possible-keep-alive': f =>
    f.trans.__(
      'It computed %1 times, at regular times, in %2, and %3 in the mean: perhaps only to seem in use.',
      f.number('pulses'),
      f.span('over_seconds'),
      f.percent('mean_percent')
    ),
  'rule-observes': f =>
    f.word('would') === 'warn'
      ? f.trans.__('Rule %1, which is on trial, would warn now.', f.word('rule'))
      : f.trans.__('Rule %1, which is on trial, would shut it down now.', f.word('rule')),
  watched: f =>
    f.trans.__(
      'This TensorBoard was looked at, or first seen, %1 ago. The limit is %2.',
      f.span('unwatched_seconds'),
      f.span('unwatched_for_seconds')
    )
};

/** A newer server may have codes for which there are no words here. */
const SENTENCES: Partial<Record<string, (facts: Facts) => string>> = {
  ...REASONS,
  ...SAID,
  ...TROUBLES,
  ...ARGUMENT
};

/** Code for a cell: IPython keeps the frames of the last error, and with them all that they name. */
const FORGET_THE_ERROR = 'import sys, gc; sys.last_exc = sys.last_value = sys.last_traceback = None; gc.collect()';

function unknownSentence(what: string, why: string, detail: string, trans: TranslationBundle): string {
  switch (what) {
    case 'memory':
      return trans.__('Its GPU memory is not known: %1%2. What is not known never counts as idle.', why, detail);
    case 'visitors':
      return trans.__(
        'Whether anybody looks at it is not known: %1%2. What is not known never counts as idle.',
        why,
        detail
      );
    default:
      return trans.__('Its compute is not known: %1%2. What is not known never counts as idle.', why, detail);
  }
}

/** A number with the digits that count. */
export function amount(value: number): string {
  return value >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
}

/** The unit of a budget, in words. */
export function measureText(measure: string, trans: TranslationBundle): string {
  switch (measure) {
    case 'gib_hours':
      return trans.__('GiB·hours');
    case 'idle_gib_hours':
      return trans.__('GiB·hours without compute');
    case 'gpu_hours':
      return trans.__('GPU·hours');
    case 'idle_gpu_hours':
      return trans.__('GPU·hours without compute');
    default:
      return measure;
  }
}

/** What is held, in words that stand in a sentence. */
export function heldText(amount: number | null, trans: TranslationBundle): string {
  return amount === null ? trans.__('GPU memory (how much is not known)') : bytes(amount);
}

/** What processes of an earlier run still hold. `memory` is in words. */
export function leftText(died: boolean, processes: number, memory: string, trans: TranslationBundle): string {
  return died
    ? trans._n(
        'The kernel died; %1 process it had started holds %2.',
        'The kernel died; %1 processes it had started hold %2.',
        processes,
        memory
      )
    : trans._n(
        '%1 process left behind by an earlier run holds %2.',
        '%1 processes left behind by an earlier run hold %2.',
        processes,
        memory
      );
}

/**
 * The sentence for one reason; its English text where we have no words for it. `estimated`: it is inferred that the
 * holder is on the device at all, so the figures are marked.
 */
export function reasonText(reason: WireReason, now: number, language: ILanguage, estimated = false): string {
  const sentence = SENTENCES[reason.code];
  try {
    return sentence?.(new Facts(reason.facts, now, language, estimated)) ?? reason.text;
  } catch (error) {
    if (error instanceof NoSuchFact) {
      return reason.text;
    }
    throw error;
  }
}

/** The sentences for `reasons`. Where one of them says that it is an estimate, the others are marked. */
export function reasonTexts(
  reasons: readonly WireReason[],
  now: number,
  language: ILanguage,
  estimated = false
): string[] {
  const inferred = estimated || reasons.some(reason => reason.code === 'estimated');
  return reasons.map(reason => reasonText(reason, now, language, inferred));
}
