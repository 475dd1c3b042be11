package uprobe

const attachEnv = "ENDOSCOPE_TEST_ATTACH"

func attachAndHang() {}
