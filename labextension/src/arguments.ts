import type { Facts } from './reasons';
import type { ARGUMENT_CODES } from './wire';
import { protectionText, stepNoun } from './words';

/** The lines of an argument that are no reasons. */
export const ARGUMENT: Record<(typeof ARGUMENT_CODES)[number], (facts: Facts) => string> = {
  'argument-mode': f =>
    f.word('mode') === 'observe'
      ? f.trans.__('Mode observe: nothing is ended. Policy: %1.', f.word('source'))
      : f.trans.__('Mode enforce: the rules are carried out. Policy: %1.', f.word('source')),
  'argument-rule': f => f.trans.__('Rule: %1.', f.word('rule')),
  'due-now': f => f.trans.__('Due now: %1.', stepNoun(f.word('step'), f.trans)),
  'next-in': f =>
    f.trans.__('Next: %1, in %2 at the earliest.', stepNoun(f.word('step'), f.trans), f.span('wait_seconds')),
  'next-now': f => f.trans.__('Next: %1, now.', stepNoun(f.word('step'), f.trans)),
  'protected-now': f =>
    f.trans.__(
      'Protected now: %1',
      f
        .word('protections')
        .split(', ')
        .map(code => protectionText(code, f.trans))
        .join(' ')
    ),
  'jupyter-culls': f =>
    f.trans.__(
      'Jupyter itself ends this kernel after %1 without a message (cull_idle_timeout); the guard does not.',
      f.span('its_seconds')
    ),
  'jupyter-culls-first': f =>
    f.trans.__(
      "Jupyter itself ends this kernel after %1 without a message (cull_idle_timeout); that comes before the guard's limit of %2.",
      f.span('its_seconds'),
      f.span('our_seconds')
    ),
  'jupyter-culls-later': f =>
    f.trans.__(
      "Jupyter itself ends this kernel after %1 without a message (cull_idle_timeout); the guard's limit of %2 comes first.",
      f.span('its_seconds'),
      f.span('our_seconds')
    )
};
