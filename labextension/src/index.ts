import { ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, IToolbarWidgetRegistry, Notification } from '@jupyterlab/apputils';
import { IFileBrowserFactory } from '@jupyterlab/filebrowser';
import { IRunningSessionManagers } from '@jupyterlab/running';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator } from '@jupyterlab/translation';
import { GuardActions } from './actions';
import { Aftermath } from './aftermath';
import { RestApi } from './api';
import { addCommands, CommandIDs } from './commands';
import { addHistory } from './dashboard';
import { Hush } from './hush';
import { speak } from './language';
import { GuardModel } from './model';
import { NoticeBoard } from './notices';
import { otherPages } from './pages';
import { GuardPanel } from './panel';
import { addRunning } from './running';
import { Seen } from './seen';
import { followSettings } from './settings';
import { GuardStatus } from './status';
import { Targets } from './target';
import { IGpuGuard } from './tokens';
import { addBadges } from './toolbar';

export { IGpuGuard } from './tokens';

const plugin: JupyterFrontEndPlugin<IGpuGuard> = {
  id: 'jupyter-gpu-guard:plugin',
  description: 'Shows which notebook holds which GPU, warns, and tells what was done.',
  autoStart: true,
  provides: IGpuGuard,
  optional: [
    ITranslator,
    ISettingRegistry,
    ICommandPalette,
    ILayoutRestorer,
    IStatusBar,
    IToolbarWidgetRegistry,
    IRunningSessionManagers,
    IFileBrowserFactory
  ],
  activate: async (
    app: JupyterFrontEnd,
    translator: ITranslator | null,
    settings: ISettingRegistry | null,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
    statusBar: IStatusBar | null,
    toolbars: IToolbarWidgetRegistry | null,
    runningManagers: IRunningSessionManagers | null,
    browsers: IFileBrowserFactory | null
  ): Promise<IGpuGuard> => {
    const { serverSettings, events } = app.serviceManager;
    // Toolbars are made before the language is known: what they show of us is filled in later.
    const badges = addBadges(toolbars);
    const { user } = app.serviceManager;
    const names = (): string[] => (user.identity === null ? [] : [user.identity.display_name, user.identity.username]);
    const language = { ...(await speak(translator)), names };
    const pages = otherPages(serverSettings.baseUrl);
    const model = new GuardModel({ api: new RestApi(serverSettings), pages });
    model.listen(events.stream);

    const actions = new GuardActions(model, Notification, language);
    const panel = new GuardPanel(model, actions, path => app.commands.execute('docmanager:open', { path }), language, {
      history: () => app.commands.execute(CommandIDs.openHistory)
    });
    app.shell.add(panel, 'right', { rank: 900, type: 'GPU Guard' });
    restorer?.add(panel, panel.id);
    const show = (owner?: string): void => {
      app.shell.activateById(panel.id);
      if (owner !== undefined) {
        panel.reveal(owner);
      }
    };
    const openHistory = addHistory(app, model, restorer, show, language);
    const targets = new Targets(app, model, browsers);
    addCommands(app, { model, actions, targets, show, openHistory }, palette, language);

    // A hint closes by itself; what stays until it is answered announces a loss.
    const hints = new Hush(Notification, options => typeof options?.autoClose === 'number');
    const news = new Hush(Notification, () => true);
    new NoticeBoard(model, hints, actions, language, show);
    const seen = new Seen(window.localStorage, 'jupyter-gpu-guard:seen');
    const told = new Seen(window.localStorage, 'jupyter-gpu-guard:told');
    const aftermath = new Aftermath(model, seen, told, news, language, show);
    app.docRegistry.addWidgetExtension('Notebook', aftermath);

    const status = new GuardStatus(model, language, show);
    statusBar?.registerStatusItem('jupyter-gpu-guard:status', {
      item: status,
      align: 'left',
      rank: 90,
      isActive: status.isActive,
      activeStateChanged: status.activeStateChanged
    });
    badges.begin(model, show, language);
    addRunning(runningManagers, model, { actions, show, refresh: () => void model.refresh() }, language);
    followSettings(settings, plugin.id, language.trans, choices => {
      model.pollSeconds = choices.pollSeconds;
      status.wanted = choices.statusBar;
      badges.wanted = choices.toolbarBadge;
      hints.quiet = news.quiet = !choices.notifications;
    });
    return model;
  }
};

export default plugin;
