import { bytes, duration, moment, percent } from './format';
import type { ILanguage } from './language';
import { originText } from './origin';
import { amount, measureText } from './reasons';
import { beltText, settingText } from './settingwords';
import type { WireEffectivePolicy, WirePassedOver, WireRule } from './wire';

type Fact = boolean | string | number | null;

/** One rule, ready to be read. Keys are those of a policy file, in which they can be looked up. */
export interface IRuleText {
  readonly name: string;
  /** What it is about; empty: everything that is left. */
  readonly match: readonly string[];
  /** From when on it acts; null: by time without compute it never does. */
  readonly limit: string | null;
  readonly ladder: readonly string[];
  /** `words`: what it means; null: it is newer than this page. */
  readonly settings: readonly { readonly key: string; readonly words: string | null; readonly value: string }[];
}

/** The policy in force, ready to be read. */
export interface IPolicyText {
  readonly lines: readonly string[];
  readonly exemptions: readonly string[];
  /** Those that can concern this user. */
  readonly budgets: readonly string[];
  readonly rules: readonly IRuleText[];
}

export function policyText(policy: WireEffectivePolicy, now: number, language: ILanguage): IPolicyText {
  const { trans } = language;
  const belts = Object.entries(policy.belts).map(([key, value]) => beltText(key, value, trans));
  return {
    lines: [
      policy.mode === 'observe'
        ? trans.__('Mode observe: what the rules would do is shown, and nothing is ended.')
        : trans.__('Mode enforce: what the rules say is done.'),
      trans.__('From %1', originText(policy.source, trans)),
      ...(belts.length > 0 ? [trans.__('Limits for all rules: %1', belts.join('; '))] : [])
    ],
    exemptions: (policy.exemptions ?? []).map(each =>
      trans.__(
        '%1: left alone until %2, %3',
        matchText(each.match, language).join(', '),
        moment(each.until, now, language),
        each.reason
      )
    ),
    budgets: (policy.budgets ?? [])
      .filter(each => each.applies_to_me)
      .map(each =>
        trans.__(
          '%1: %2 of %3 %4 used in %5; then rule %6',
          each.name,
          amount(each.used),
          amount(each.limit),
          measureText(each.measure, trans),
          duration(each.window_seconds, trans),
          each.then
        )
      ),
    rules: policy.rules.map(rule => ruleText(rule, language))
  };
}

function ruleText(rule: WireRule, language: ILanguage): IRuleText {
  const { trans } = language;
  return {
    name: rule.name,
    match: matchText(rule.match, language),
    limit: limitText(rule.settings, language),
    ladder: rule.ladder.map(({ do: step, after_seconds: after }) =>
      after > 0
        ? trans.__('%1: %2 after the limit is reached', step, duration(after, trans))
        : trans.__('%1: as soon as the limit is reached', step)
    ),
    // What is not set says nothing, and would hide what is.
    settings: Object.entries(rule.settings)
      .filter(([, value]) => value !== null)
      .map(([key, value]) => ({
        key: keyOf(key),
        words: settingText(keyOf(key), trans),
        value: valueText(key, value, language)
      }))
  };
}

/** The limit that the ladder counts from. */
function limitText(settings: Record<string, Fact>, { trans }: ILanguage): string | null {
  const [below, over, span] = ['idle.compute_below_percent', 'idle.memory_above_bytes', 'idle.for_seconds'].map(
    key => settings[key]
  );
  return typeof below === 'number' && typeof over === 'number' && typeof span === 'number' && span > 0
    ? trans.__('limit: %1 held with less than %2 compute for %3', bytes(over), percent(below), duration(span, trans))
    : null;
}

function matchText(match: Record<string, Fact>, language: ILanguage): string[] {
  return Object.entries(match).map(([key, value]) => `${keyOf(key)}: ${valueText(key, value, language)}`);
}

const UNITS = ['_seconds', '_bytes', '_percent'];

/** As it is written in a file: there a unit stands with the value. */
function keyOf(key: string): string {
  const unit = UNITS.find(each => key.endsWith(each));
  return unit === undefined ? key : key.slice(0, -unit.length);
}

function valueText(key: string, value: Fact, { trans }: ILanguage): string {
  if (typeof value === 'number' && key.endsWith('_seconds')) {
    return duration(value, trans);
  }
  if (typeof value === 'number' && key.endsWith('_bytes')) {
    return bytes(value);
  }
  if (typeof value === 'number' && key.endsWith('_percent')) {
    return percent(value);
  }
  if (typeof value === 'boolean') {
    return value ? trans.__('yes') : trans.__('no');
  }
  return String(value);
}

/** The rules that were asked before the one that decides, and why each does not. */
export function passedOverTexts(passed: readonly WirePassedOver[], { trans }: ILanguage): string[] {
  return passed.map(({ rule, unmet }) =>
    unmet.length === 0
      ? trans.__('%1: is on trial, and only says what it would do', rule)
      : trans.__('%1: does not fit (%2)', rule, unmet.join(', '))
  );
}
