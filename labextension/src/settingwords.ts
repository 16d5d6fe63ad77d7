import type { TranslationBundle } from '@jupyterlab/translation';
import { percent } from './format';
import { stateWord } from './words';

/** A limit for all rules, in words; one that is newer than this page by its key. */
export function beltText(key: string, value: number, trans: TranslationBundle): string {
  switch (key) {
    case 'shutdowns_per_hour':
      return trans._n('at most %1 shutdown per hour', 'at most %1 shutdowns per hour', value);
    case 'shutdowns_per_tick':
      return trans._n('at most %1 shutdown at once', 'at most %1 shutdowns at once', value);
    case 'share_of_holders_percent':
      return trans.__(
        'a new policy that would newly end more than %1 of those that hold GPU memory waits for an administrator',
        percent(value)
      );
    default:
      return `${key}: ${value}`;
  }
}

const STATE = 'states.';

/** What a value of a rule means, by its key in a policy file; null: it is newer than this page. */
export function settingText(key: string, trans: TranslationBundle): string | null {
  if (key.startsWith(STATE)) {
    return trans.__('Idle limit while it is: %1', stateWord(key.slice(STATE.length), trans));
  }
  switch (key) {
    case 'idle.compute_below':
      return trans.__('Idle: less compute than');
    case 'idle.memory_above':
      return trans.__('Idle: holds at least');
    case 'idle.for':
      return trans.__('Idle: for at least');
    case 'idle.unwatched_for':
      return trans.__('TensorBoards: nobody looked for');
    case 'trickle.mean_below':
      return trans.__('Hardly used: mean compute below');
    case 'trickle.over':
      return trans.__('Hardly used: for at least');
    case 'notice':
      return trans.__('Warned so long before a loss');
    case 'undelivered':
      return trans.__('The same, if the warning reaches nobody');
    case 'keep':
      return trans.__('Left alone');
    case 'keep.longest':
      return trans.__('Can be kept at once for at most');
    case 'keep.per_day':
      return trans.__('How often it can be kept in 24 hours');
    case 'keep.reason_is_required':
      return trans.__('Keeping needs a reason');
    case 'trust_estimates':
      return trans.__('May be ended on an estimate');
    case 'observe':
      return trans.__('On trial: only says what it would do');
    default:
      return null;
  }
}
