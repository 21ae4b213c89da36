//go:build ignore
package main
import ("fmt";"go/ast";"go/importer";"go/parser";"go/token";"go/types";"os";"strings")
func main(){
 for _,dir:=range os.Args[1:]{
 fs:=token.NewFileSet(); ps,_:=parser.ParseDir(fs,dir,func(i os.FileInfo)bool{return !strings.HasSuffix(i.Name(),"_test.go")&&!strings.HasSuffix(i.Name(),"_windows.go")},0)
 for _,p:=range ps{ var fl []*ast.File; for _,f:=range p.Files{fl=append(fl,f)}
 info:=&types.Info{Types:map[ast.Expr]types.TypeAndValue{}}
 c:=types.Config{Importer:importer.ForCompiler(fs,"source",nil),Error:func(error){}}; c.Check(dir,fs,fl,info)
 for _,f:=range fl{ast.Inspect(f,func(n ast.Node)bool{ if r,ok:=n.(*ast.RangeStmt);ok{ if t,ok:=info.Types[r.X];ok{ if _,ok:=t.Type.Underlying().(*types.Map);ok{ fmt.Println(fs.Position(r.Pos()))}}};return true})}
 }}}
