module.exports = '<svg></svg>';
