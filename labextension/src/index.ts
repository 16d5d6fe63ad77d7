import { ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, Notification } from '@jupyterlab/apputils';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator } from '@jupyterlab/translation';
import { GuardActions } from './actions';
import { Aftermath } from './aftermath';
import { RestApi } from './api';
import { addCommands, CommandIDs } from './commands';
import { speak } from './language';
import { GuardModel } from './model';
import { NoticeBoard } from './notices';
import { GuardPanel } from './panel';
import { Seen } from './seen';
import { followSettings } from './settings';
import { GuardStatus } from './status';
import { IGpuGuard } from './tokens';

export { IGpuGuard } from './tokens';

const plugin: JupyterFrontEndPlugin<IGpuGuard> = {
  id: 'jupyter-gpu-guard:plugin',
  description: 'Shows which notebook holds which GPU, warns, and tells what was done.',
  autoStart: true,
  provides: IGpuGuard,
  optional: [ITranslator, ISettingRegistry, ICommandPalette, ILayoutRestorer, IStatusBar],
  activate: async (
    app: JupyterFrontEnd,
    translator: ITranslator | null,
    settings: ISettingRegistry | null,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
    statusBar: IStatusBar | null
  ): Promise<IGpuGuard> => {
    const language = await speak(translator);
    const model = new GuardModel({ api: new RestApi(app.serviceManager.serverSettings) });
    model.listen(app.serviceManager.events.stream);

    const show = (owner?: string): void => {
      void app.commands.execute(CommandIDs.open, owner === undefined ? {} : { owner });
    };
    const actions = new GuardActions(model, Notification, language);
    const panel = new GuardPanel(model, actions, path => app.commands.execute('docmanager:open', { path }), language);
    app.shell.add(panel, 'right', { rank: 900, type: 'GPU Guard' });
    restorer?.add(panel, panel.id);
    addCommands(app, model, panel, palette, language);

    new NoticeBoard(model, Notification, actions, language, show);
    const seen = new Seen(window.localStorage, 'jupyter-gpu-guard:seen');
    const told = new Seen(window.localStorage, 'jupyter-gpu-guard:told');
    const aftermath = new Aftermath(model, seen, told, Notification, language, show);
    app.docRegistry.addWidgetExtension('Notebook', aftermath);

    const status = new GuardStatus(model, language, show);
    statusBar?.registerStatusItem('jupyter-gpu-guard:status', {
      item: status,
      align: 'left',
      rank: 90,
      isActive: status.isActive,
      activeStateChanged: status.activeStateChanged
    });
    followSettings(settings, plugin.id, model, status);
    return model;
  }
};

export default plugin;
