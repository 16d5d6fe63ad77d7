import type { ILayoutRestorer, JupyterFrontEnd } from '@jupyterlab/application';
import { type MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import { CommandIDs } from '../commands';
import type { ILanguage } from '../language';
import type { GuardModel } from '../model';
import { GuardHistory, historyTab } from './widget';

/** Opens the history, or brings it to the front. It is there again after a reload where layouts are restored. */
export function addHistory(
  app: JupyterFrontEnd,
  model: GuardModel,
  restorer: ILayoutRestorer | null,
  show: (owner: string) => void,
  language: ILanguage
): () => void {
  const tracker = new WidgetTracker<MainAreaWidget<GuardHistory>>({ namespace: 'jupyter-gpu-guard-history' });
  void restorer?.restore(tracker, { command: CommandIDs.openHistory, name: () => 'history' });
  return () => {
    let tab = tracker.currentWidget;
    if (tab === null || tab.isDisposed) {
      tab = historyTab(new GuardHistory(model, show, language), language);
      app.shell.add(tab, 'main');
      if (!tab.isAttached) {
        app.shell.add(tab, 'right'); // a page of Notebook 7 has room for one document only
      }
      void tracker.add(tab);
    }
    app.shell.activateById(tab.id);
  };
}
