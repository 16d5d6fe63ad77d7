import type { TranslationBundle } from '@jupyterlab/translation';
import { duration, moment, secondsUntil } from './format';
import type { ILanguage } from './language';
import type { REASON_CODES, WireHolder, WireNotice, WireReport } from './wire';
import { stateWord } from './words';

/** How a row looks, besides what it says. */
export type Tone = 'busy' | 'idle' | 'kept' | 'warned' | 'unknown' | 'parked' | 'over';

const BUSY: readonly WireHolder['state'][] = ['executing', 'serving', 'input-bound'];

/** The warnings after which something is lost, the nearest first. The others are hints. */
export function threats(report: WireReport): (WireNotice & { deadline: string })[] {
  return report.notices
    .filter((notice): notice is WireNotice & { deadline: string } => notice.deadline !== null)
    .sort((a, b) => Date.parse(a.deadline) - Date.parse(b.deadline));
}

export function toneOf(holder: WireHolder, report: WireReport): Tone {
  if (isEnding(holder, report) || threats(report).some(notice => notice.owner === holder.owner)) {
    return 'warned';
  }
  if (holder.lease) {
    return 'kept';
  }
  if (holder.state === 'dead') {
    return 'over';
  }
  if (isParked(holder)) {
    return 'parked';
  }
  if (holder.memory_bytes === null || holder.compute_percent === null) {
    return 'unknown';
  }
  return BUSY.includes(holder.state) || hasReason(holder, 'computing') ? 'busy' : 'idle';
}

/** Whether an act is under way or due now. */
export function isEnding(holder: WireHolder, report: WireReport): boolean {
  return hasReason(holder, 'acting') || (report.mode === 'enforce' && holder.verdict.action === 'shutdown');
}

/** Whether what it had on GPUs is in the host's memory. */
export function isParked(holder: WireHolder): boolean {
  return holder.state === 'parked' || (holder.parked ?? null) !== null;
}

export function hasReason(holder: WireHolder, code: (typeof REASON_CODES)[number]): boolean {
  return holder.verdict.reasons.some(reason => reason.code === code);
}

/** `idle 1 h 20 min`, `waiting for input, no compute for 5 min`. */
export function doing(holder: WireHolder, trans: TranslationBundle): string {
  const idle = holder.idle_seconds === null ? null : duration(holder.idle_seconds, trans);
  const computing = hasReason(holder, 'computing');
  switch (holder.state) {
    case 'executing':
    case 'waiting-for-input':
    case 'at-breakpoint':
      return idle === null || computing
        ? stateWord(holder.state, trans)
        : trans.__('%1, no compute for %2', stateWord(holder.state, trans), idle);
    case 'serving':
      return trans.__('serving: somebody came to its port');
    case 'input-bound':
      return computing ? trans.__('computing') : trans.__('input-bound: CPU or disk work, no GPU compute');
    case 'starting':
    case 'parked':
    case 'dead':
      return stateWord(holder.state, trans);
    default:
      if (computing) {
        return trans.__('computing');
      }
      if (idle !== null) {
        return trans.__('idle %1', idle);
      }
      return holder.compute_percent === null ? trans.__('compute not known') : trans.__('in use lately');
  }
}

/** `shut down in 14 min by rule default`; null: nothing comes. What is milder and comes before is said first. */
export function coming(holder: WireHolder, report: WireReport, now: number, language: ILanguage): string | null {
  const { trans } = language;
  const { action, next_action: next, deadline, rule } = holder.verdict;
  const observed = report.mode === 'observe';
  if (holder.lease) {
    return trans.__('kept until %1', moment(holder.lease.until, now, language));
  }
  if (hasReason(holder, 'acting')) {
    return trans.__('a step is under way');
  }
  if (action !== 'keep' && action !== 'warn') {
    return dueText(action, rule, observed, trans);
  }
  if (next === null || deadline === null) {
    return next !== null && hasReason(holder, 'undelivered') ? trans.__('nobody could be told of it so far') : null;
  }
  const left = secondsUntil(deadline, now);
  if (next === 'warn') {
    const span = duration(left, trans);
    return observed ? trans.__('warning would come in %1', span) : trans.__('warning in %1', span);
  }
  const text = left < 1 ? dueText(next, rule, observed, trans, true) : stepText(next, left, rule, observed, trans);
  if (next === 'shutdown') {
    return text;
  }
  const loss = threats(report).find(notice => notice.owner === holder.owner);
  return loss === undefined
    ? text
    : trans.__('%1, %2', text, trans.__('shut down at %1', moment(loss.deadline, now, language)));
}

type Step = 'release' | 'park' | 'shutdown';

/** What is due now, or `soon`. */
function dueText(step: Step, rule: string, observed: boolean, trans: TranslationBundle, soon = false): string {
  switch (step) {
    case 'release':
      return observed
        ? trans.__('would give back what it caches now by rule %1', rule)
        : trans.__('gives back what it caches now by rule %1', rule);
    case 'park':
      return observed ? trans.__('would be parked now by rule %1', rule) : trans.__('being parked by rule %1', rule);
    case 'shutdown':
      if (observed) {
        return trans.__('would be shut down now by rule %1', rule);
      }
      return soon ? trans.__('shut down at any moment by rule %1', rule) : trans.__('being shut down by rule %1', rule);
  }
}

/** What comes in `left` seconds. */
function stepText(step: Step, left: number, rule: string, observed: boolean, trans: TranslationBundle): string {
  const span = duration(left, trans);
  switch (step) {
    case 'release':
      return observed
        ? trans.__('would give back what it caches in %1 by rule %2', span, rule)
        : trans.__('gives back what it caches in %1 by rule %2', span, rule);
    case 'park':
      return observed
        ? trans.__('would be parked in %1 by rule %2', span, rule)
        : trans.__('parked in %1 by rule %2', span, rule);
    case 'shutdown':
      return observed
        ? trans.__('would be shut down in %1 by rule %2', span, rule)
        : trans.__('shut down in %1 by rule %2', span, rule);
  }
}
