// Search runs in a worker. Browsers start none for a page that is opened from a file: there a hidden frame does its work.
class IFrameWorker extends EventTarget {
  constructor(url) {
    super()
    this.onmessage = null
    const frame = document.createElement("iframe")
    frame.hidden = true
    document.body.appendChild(frame)
    const inner = (this.inner = frame.contentWindow)
    inner.document.open()
    inner.document.write(
      `<script>postMessage = parent.postMessage.bind(parent)</script><script src="${url}"></script>`
    )
    inner.document.close()
    this.ready = new Promise((resolve) => inner.addEventListener("load", resolve, { once: true }))
    this.terminate = () => frame.remove()
    addEventListener("message", (event) => {
      if (event.source !== inner) return
      const copy = new MessageEvent("message", { data: event.data })
      this.dispatchEvent(copy)
      this.onmessage?.(copy)
    })
  }

  postMessage(data) {
    this.ready.then(() => this.inner.dispatchEvent(new MessageEvent("message", { data })))
  }
}

if (location.protocol === "file:") Object.assign(window, { IFrameWorker, Worker: IFrameWorker })
