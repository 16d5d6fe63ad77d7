import './base.css';
import './rows.css';
