/** The platform of this machine as the names of the prebuilt modules have it, such as `linux-x64-gnu`. */

exports.platform = () => {
  const parts = [process.platform, process.arch]
  if (process.platform === 'linux') {
    parts.push(process.report.getReport().header.glibcVersionRuntime === undefined ? 'musl' : 'gnu')
  }
  return parts.join('-')
}
