import type { TranslationBundle } from '@jupyterlab/translation';
import { detailText } from './endings';
import type { ILanguage } from './language';
import { anyEstimate, leftMemory } from './owners';
import { about } from './readings';
import { heldText, leftText } from './reasons';
import { latestText, parkedText } from './remedies';
import { hasReason } from './standing';
import type { WireHolder, WireReport } from './wire';

/** Something a person should know of a row at once. */
export interface INote {
  readonly key: string;
  readonly text: string;
}

/** The notes of one row, the most pressing first. */
export function notesOf(holder: WireHolder, report: WireReport, now: number, language: ILanguage): INote[] {
  const { trans } = language;
  const latest = latestText(holder, report, now, language);
  const notes: [string, string | null][] = [
    ['leftovers', leftovers(holder, trans)],
    [
      'failed',
      hasReason(holder, 'last-cell-failed')
        ? trans.__('Its last cell failed, and the error may hold the memory. “Why?” tells how to free it.')
        : null
    ],
    [
      'duplicate',
      holder.board?.duplicate === true ? trans.__('Another TensorBoard shows the same logs: one is enough.') : null
    ],
    [
      'needs-no-gpu',
      holder.kind === 'tensorboard' && (holder.memory_bytes ?? 0) > 0
        ? trans.__('It needs no GPU. Started with %1 it leaves the GPU alone.', 'CUDA_VISIBLE_DEVICES=')
        : null
    ],
    ['parked', parkedText(holder, now, language)],
    [
      'latest',
      latest === null ? null : trans.__('%1. %2', latest.text, detailText(latest.outcome, now, language)).trim()
    ]
  ];
  return notes.flatMap(([key, text]) => (text === null ? [] : [{ key, text }]));
}

function leftovers(holder: WireHolder, trans: TranslationBundle): string | null {
  if (holder.leftovers.length === 0) {
    return null;
  }
  const processes = new Set(holder.leftovers.map(process => process.pid)).size;
  const amount = leftMemory(holder);
  const memory = heldText(amount, trans);
  const inferred = amount !== null && anyEstimate(holder.leftovers);
  return leftText(holder.died === true, processes, inferred ? about(memory) : memory, trans);
}
