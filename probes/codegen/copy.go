package codegen

import (
	"slices"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// Waiting describes how a sleepable program reads memory that is not present.
type Waiting struct {
	// CopyText is the kernel's BTF type of bpf_copy_from_user_str (Linux 6.12); 0:
	// the kernel does not have it. Then a text is read only as far as it lies on
	// its first page or on pages that are present.
	CopyText btf.TypeID
}

// ReadsMemory reports whether the program reads memory of the target.
func (r *Reader) ReadsMemory() bool {
	return r != nil && slices.ContainsFunc(r.Values, func(vs []Value) bool {
		return slices.ContainsFunc(vs, func(v Value) bool {
			return v.Text != nil || v.Number.readsMemory() || v.Length.readsMemory() || v.Index.readsMemory()
		})
	})
}

func (n *Integer) readsMemory() bool {
	return n != nil && (n.Memory || len(n.Follow) > 0 || n.Element != nil && slices.ContainsFunc(n.Element.Indexes, func(i Index) bool { return i.By.readsMemory() }))
}

// copyUser writes code that reads R2 bytes at R3 to R1; R0 is not 0 if that fails.
func (w *writer) copyUser() {
	if w.wait != nil {
		w.add(asm.FnCopyFromUser.Call())
		return
	}
	w.add(asm.FnProbeReadUser.Call())
}

// copyText writes code that reads a text of size bytes at most, with its zero
// byte, from R3 to the end of the texts. R0 is its length with the zero byte, or
// not positive if that fails.
func (w *writer) copyText(size int32) {
	to := asm.Instructions{asm.Mov.Reg(asm.R1, readTexts), asm.Add.Reg(asm.R1, readEnd), asm.Mov.Imm(asm.R2, size)}
	if w.wait != nil && w.wait.CopyText != 0 {
		w.add(to...)
		w.add(asm.Mov.Imm(asm.R4, 0), asm.Instruction{
			OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Call), Src: asm.PseudoKfuncCall, Constant: int64(w.wait.CopyText),
		})
		w.add(asm.LSh.Imm(asm.R0, 32), asm.ArSh.Imm(asm.R0, 32)) // it returns an int
		return
	}
	if w.wait != nil { // load the first page
		w.add(asm.StoreMem(asm.RFP, lengthAt, asm.R3, asm.DWord),
			asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, wordOnStack), asm.Mov.Imm(asm.R2, 1), asm.FnCopyFromUser.Call(),
			asm.LoadMem(asm.R3, asm.RFP, lengthAt, asm.DWord))
	}
	w.add(to...)
	w.add(asm.FnProbeReadUserStr.Call())
}
